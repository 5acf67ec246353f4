#include "bench/ycsb/acknowledged_counter.h"

namespace farlook::bench {
namespace {

size_t Place(int64_t number) { return static_cast<size_t>(number % AcknowledgedCounter::kWindow); }

}  // namespace

AcknowledgedCounter::AcknowledgedCounter(int64_t first) : next_(first), last_(first - 1), acknowledged_(kWindow) {}

bool AcknowledgedCounter::Acknowledge(int64_t number) {
  absl::MutexLock lock(&mutex_);
  int64_t last = last_.load(std::memory_order_relaxed);
  if (number - last > kWindow) return false;
  acknowledged_[Place(number)] = true;
  while (acknowledged_[Place(last + 1)]) acknowledged_[Place(++last)] = false;
  last_.store(last, std::memory_order_release);
  return true;
}

}  // namespace farlook::bench
