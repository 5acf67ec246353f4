#include "server/daemon/stopper.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "server/base/log.h"

namespace farlook::server {
namespace {

// The process's signal to itself. It differs from an operator's: two pending signals of one number are merged.
constexpr int kBeginAnew = SIGUSR1;

}  // namespace

sigset_t Stopper::Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, kBeginAnew}) sigaddset(&signals, signal);
  return signals;
}

Stopper::Stopper(LogWriter* writer) : writer_(writer) { can_wait_ = pthread_create(&thread_, nullptr, Run, this) == 0; }

// The thread reads this object until it has ended.
Stopper::~Stopper() {
  if (awaited_) return;
  preparing_.exchange(false, std::memory_order_acq_rel);
  BeginAnew();
  Await();
}

void Stopper::Ready(std::function<void()> reload) {
  {
    absl::MutexLock lock(&mutex_);
    reload_ = std::move(reload);
  }
  while (!preparing_.exchange(false, std::memory_order_acq_rel)) pause();  // the process is about to end
}

// Sent once: a second signal would stay pending for the restarted process.
void Stopper::BeginAnew() {
  if (!ordered_.exchange(true, std::memory_order_relaxed)) kill(getpid(), kBeginAnew);
}

void Stopper::Await() {
  awaited_ = true;
  can_wait_ ? static_cast<void>(pthread_join(thread_, nullptr)) : Receive();
}

bool Stopper::begins_anew() const {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return received_ == kBeginAnew && sigismember(&pending, SIGTERM) == 0 && sigismember(&pending, SIGINT) == 0;
}

const char* Stopper::signal_name() const {
  return received_ == SIGINT ? "SIGINT" : received_ == SIGTERM ? "SIGTERM" : "none";
}

void* Stopper::Run(void* self) {
  static_cast<Stopper*>(self)->Receive();
  return nullptr;
}

void Stopper::Receive() {
  const sigset_t signals = Signals();
  while (received_ == 0) {
    siginfo_t info = {};
    const int signal = sigwaitinfo(&signals, &info);
    if (signal == SIGHUP) Reload();
    // Another process's kBeginAnew is ignored.
    if (signal == SIGTERM || signal == SIGINT || (signal == kBeginAnew && info.si_pid == getpid())) received_ = signal;
  }
  if (!preparing_.exchange(false, std::memory_order_acq_rel)) return;
  Log(LogLevel::kInfo, "stopped before it was ready", {{"signal", signal_name()}});
  writer_->Flush();
  _exit(EXIT_SUCCESS);
}

void Stopper::Reload() {
  absl::MutexLock lock(&mutex_);
  if (reload_) reload_();
}

}  // namespace farlook::server
