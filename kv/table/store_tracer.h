// For tests: runs a function after each single store to a range of memory. So a test sees what a reader could see
// between any two stores of the writer.
//
// The range is read-only. A store to it faults and is executed alone (the processor's trap flag stops after one
// instruction); then the function runs. It may read the range and allocate, but not store to the range.
#ifndef FARLOOK_KV_TABLE_STORE_TRACER_H_
#define FARLOOK_KV_TABLE_STORE_TRACER_H_

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/base/config.h"
#include "absl/types/span.h"

// The thread sanitizer's atomics are calls that may not be interrupted.
#if !defined(__x86_64__) || defined(ABSL_HAVE_THREAD_SANITIZER)
#define FARLOOK_NO_STORE_TRACER 1
#endif

namespace farlook::kv {

// Traces for its lifetime. One at a time in a process, whose other threads must not access the range.
class StoreTracer {
 public:
#ifdef FARLOOK_NO_STORE_TRACER
  static constexpr bool kWorksHere = false;
#else
  static constexpr bool kWorksHere = true;
#endif

  // REQUIRES kWorksHere, memory of whole pages of 4 KiB.
  StoreTracer(absl::Span<char> memory, std::function<void()> after_store)
      : memory_(memory), after_store_(std::move(after_store)) {
    current_ = this;
    Install(SIGSEGV, &StoreTracer::OnFault, &old_segv_);
    Install(SIGTRAP, &StoreTracer::OnTrap, &old_trap_);
    Protect(PROT_READ);
  }
  ~StoreTracer() {
    Protect(PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &old_segv_, nullptr);
    sigaction(SIGTRAP, &old_trap_, nullptr);
    current_ = nullptr;
  }
  StoreTracer(const StoreTracer&) = delete;
  StoreTracer& operator=(const StoreTracer&) = delete;

  uint64_t stores() const { return stores_; }
  // From now on traces this range instead; empty: nothing. The function may call it.
  void Watch(absl::Span<char> memory) {
    Protect(PROT_READ | PROT_WRITE);
    memory_ = memory;
    Protect(PROT_READ);
  }

 private:
  static constexpr greg_t kTrapFlag = 0x100;

  static void Install(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction* old) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(number, &action, old) != 0) std::abort();
  }

  void Protect(int protection) {
    if (mprotect(memory_.data(), memory_.size(), protection) != 0) std::abort();
  }

  static void OnFault(int, siginfo_t* info, void* context) {
    const char* at = static_cast<const char*>(info->si_addr);
    if (at < current_->memory_.data() || at >= current_->memory_.data() + current_->memory_.size()) {
      sigaction(SIGSEGV, &current_->old_segv_, nullptr);  // a real fault: occurs again
      return;
    }
    current_->Protect(PROT_READ | PROT_WRITE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
  }

  static void OnTrap(int, siginfo_t*, void* context) {
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
    current_->Protect(PROT_READ);
    ++current_->stores_;
    current_->after_store_();
  }

  inline static StoreTracer* current_ = nullptr;

  absl::Span<char> memory_;
  const std::function<void()> after_store_;
  uint64_t stores_ = 0;
  struct sigaction old_segv_ {};
  struct sigaction old_trap_ {};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_STORE_TRACER_H_
