#include "server/base/lock_times.h"

#include <algorithm>

namespace farlook::server {
namespace {

uint64_t ReadClock(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t MeasureScale() {
  // The median of three, since the thread may be interrupted between its reads of the two clocks.
  constexpr uint64_t kNs = 60'000;
  std::array<uint64_t, 3> scales;
  for (uint64_t& scale : scales) {
    const uint64_t start_ns = ReadClock(CLOCK_MONOTONIC);
    const uint64_t start = Ticks();
    uint64_t now_ns;
    do {
      now_ns = ReadClock(CLOCK_MONOTONIC);
    } while (now_ns - start_ns < kNs);
    scale = ((now_ns - start_ns) << 32) / std::max<uint64_t>(Ticks() - start, 1);
  }
  std::sort(scales.begin(), scales.end());
  return scales[1];
}

}  // namespace

uint64_t TickScale() {
  static const uint64_t scale = MeasureScale();
  return scale;
}

// Returns the length of a hold that is as long as a sample's interval, or seems to end before it starts.
uint64_t LockTimes::LongNs(uint64_t start, uint64_t end) {
  if (end < start) return 0;  // another processor's counter
  const uint64_t before = processor_ns_;
  TakeSample(Ticks());
  return std::min(ToNs(end - start), processor_ns_ - before);
}

void LockTimes::TakeSample(uint64_t now) {
  sampled_ = now;
  processor_ns_ = ReadClock(CLOCK_THREAD_CPUTIME_ID);
}

void LockTimes::AddTo(DurationBuckets* buckets) const {
  for (size_t i = 0; i < counts_.size(); ++i) buckets->Add(i, counts_[i].load(std::memory_order_relaxed));
}

}  // namespace farlook::server
