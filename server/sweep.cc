#include "server/sweep.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"

namespace farlook::server {

using Tick = kv::ExpiryIndex::Tick;

// When the tick is over in which the table's first item expires.
int64_t Sweep::TableDueNs() const {
  Tick first = kv::ExpiryIndex::kNever;
  for (int i = 0; i < shared_.table->partitions(); ++i) first = std::min(first, shared_.table->ExpiryDue(i));
  if (first == kv::ExpiryIndex::kNever) return kNever;
  return shared_.time.NsAt(((uint64_t{first} + 1) << kv::ExpiryIndex::kTickBits) * 1000);
}

void Sweep::Poll(int64_t now_ns) {
  if (noted_) {
    noted_ = false;
    due_ns_ = std::max(next_ns_, TableDueNs());
  }
  if (now_ns >= due_ns_) Step(now_ns);
}

void Sweep::Step(int64_t now_ns) {
  const Tick now = kv::ExpiryIndex::TickOf(shared_.time.At(now_ns) / 1000);
  const int partitions = shared_.table->partitions();
  bool locked = false;
  int64_t end_ns = now_ns;
  for (int looked = 0, holds = 0; looked < partitions && holds < kHolds && end_ns - now_ns < kStepNs;) {
    if (shared_.table->ExpiryDue(partition_) < now) {
      ++holds;
      const bool more = SweepPartition(partition_, now, now_ns, &locked);
      end_ns = shared_.clock->NowNs();
      if (more) continue;
    }
    partition_ = (partition_ + 1) % partitions;
    ++looked;
  }
  next_ns_ = end_ns + (kShare - 1) * (end_ns - now_ns);
  if (locked) next_ns_ = std::max(next_ns_, end_ns + kLockedNs);
  due_ns_ = std::max(next_ns_, TableDueNs());
}

// Whether there is more to do there now.
bool Sweep::SweepPartition(int partition, Tick now, int64_t now_ns, bool* locked) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  absl::Mutex* const mutex = shared_.locks->at(partition);
  if (!mutex->TryLock()) {
    *locked = true;
    return false;
  }
  const uint64_t start = Ticks();
  const bool more = shared_.table->ExpiryDue(partition) < now &&
                    shared_.table->Sweep(partition, kBucketsInOneHold, now_ns, &counters_);
  const uint64_t end = Ticks();
  mutex->Unlock();
  if (times_ != nullptr) times_->Add(start, end);
  for (const kv::ExpiredCounter& counter : counters_) {
    if (shared_.counters != nullptr) shared_.counters->Expire(counter.key, counter.hash, shared_.time.At(now_ns));
  }
  counters_.clear();
  return more;
}

}  // namespace farlook::server
