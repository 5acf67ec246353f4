#include "server/sweep.h"

#include <algorithm>

namespace farlook::server {

using Tick = kv::ExpiryIndex::Tick;

// When the tick is over in which the table's first item expires.
int64_t Sweep::TableDueNs() const {
  const kv::Table& table = *shared().table;
  Tick first = kv::ExpiryIndex::kNever;
  for (int i = 0; i < table.partitions(); ++i) first = std::min(first, table.ExpiryDue(i));
  if (first == kv::ExpiryIndex::kNever) return kNever;
  return shared().time.NsAt(((uint64_t{first} + 1) << kv::ExpiryIndex::kTickBits) * 1000);
}

bool Sweep::Poll(int64_t now_ns) {
  if (TakeNote()) set_due_ns(std::max(next_ns_, TableDueNs()));
  if (now_ns < due_ns()) return false;
  Step(now_ns);
  return true;
}

void Sweep::Step(int64_t now_ns) {
  const Tick now = kv::ExpiryIndex::TickOf(shared().time.At(now_ns) / 1000);
  const int partitions = shared().table->partitions();
  bool locked = false;
  int64_t end_ns = now_ns;
  for (int looked = 0, holds = 0; looked < partitions && holds < kHolds && end_ns - now_ns < kStepNs;) {
    if (shared().table->ExpiryDue(partition()) < now) {
      ++holds;
      const bool more = SweepPartition(now, now_ns, &locked);
      end_ns = shared().clock->NowNs();
      if (more) continue;
    }
    NextPartition();
    ++looked;
  }
  if (now_ns - since_ns_ >= kShare * spent_ns_) {
    since_ns_ = now_ns;
    spent_ns_ = 0;
  }
  spent_ns_ += std::min(end_ns - now_ns, kMostOfAStepNs);
  next_ns_ = spent_ns_ < kBurstNs ? end_ns : since_ns_ + kShare * spent_ns_;
  if (locked) next_ns_ = std::max(next_ns_, end_ns + kLockedNs);
  set_due_ns(std::max(next_ns_, TableDueNs()));
}

// Whether there is more to do there now.
bool Sweep::SweepPartition(Tick now, int64_t now_ns, bool* locked) {
  bool more = false;
  const bool had = TryLocked([&] {
    more = shared().table->ExpiryDue(partition()) < now &&
           shared().table->Sweep(partition(), kBucketsInOneHold, now_ns, &left_);
  });
  if (!had) *locked = true;
  for (const kv::ExpiredItem& item : left_) {
    if (shared().gate != nullptr) {
      if (!shared().gate->ExpireUnasked(item.hash, item.key)) break;  // the others are shown again
    } else if (shared().counters != nullptr) {
      shared().counters->Expire(item.key, item.hash, shared().time.At(now_ns));
    }
  }
  left_.clear();
  return more;
}

}  // namespace farlook::server
