// A figure that one thread at a time changes and any thread may read.
#ifndef FARLOOK_KV_HEAP_FIGURE_H_
#define FARLOOK_KV_HEAP_FIGURE_H_

#include <atomic>
#include <cstdint>

namespace farlook::kv {

class Figure {
 public:
  void operator+=(uint64_t n) { value_.store(value() + n, std::memory_order_relaxed); }
  void operator-=(uint64_t n) { value_.store(value() - n, std::memory_order_relaxed); }
  void operator=(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HEAP_FIGURE_H_
