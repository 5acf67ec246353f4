#include "server/executor/sweep.h"

#include <algorithm>

namespace farlook::server {

using Tick = kv::ExpiryIndex::Tick;

// Returns the end of the tick in which the table's first item expires.
int64_t Sweep::TableDueNs() const {
  const kv::Table& table = *shared().table;
  Tick first = kv::ExpiryIndex::kNever;
  for (int i = 0; i < table.partitions(); ++i) first = std::min(first, table.ExpiryDue(i));
  if (first == kv::ExpiryIndex::kNever) return kNever;
  return shared().time.NsAt(((uint64_t{first} + 1) << kv::ExpiryIndex::kTickBits) * 1000);
}

bool Sweep::Poll(int64_t now_ns, bool idle) {
  if (TakeNote()) set_due_ns(shared().table->Swept(wanted_us_) ? TableDueNs() : 0);
  if (now_ns < due_ns()) return false;
  const int64_t share = idle ? kIdleShare : now_ns - due_ns() >= kLateNs ? kLateShare : kBusyShare;
  const bool rested = now_ns - since_ns_ >= share * spent_ns_;
  if (spent_ns_ >= kBurstNs && !rested) return false;
  if (rested) {
    since_ns_ = now_ns;
    spent_ns_ = 0;
  }
  Step(now_ns);
  if (spent_ns_ >= kBurstNs && share > kIdleShare && shared().workers > 1 && shared().wake_workers)
    shared().wake_workers();
  return true;
}

void Sweep::Step(int64_t now_ns) {
  const Tick now = kv::ExpiryIndex::TickOf(shared().time.At(now_ns) / 1000);
  const kv::Table& table = *shared().table;
  const size_t before = left_.size();
  bool handed = HandOver(now_ns), did = left_.size() < before;
  int64_t end_ns = now_ns;
  for (int looked = 0, holds = 0;
       handed && looked < table.partitions() && holds < kHolds && end_ns - now_ns < kStepNs;) {
    const bool to_now = !table.Swept(partition(), wanted_us_);
    bool more = false;
    if (to_now || table.ExpiryDue(partition()) < now) {
      ++holds;
      bool locked = false;
      more = SweepPartition(to_now, now_ns, &locked);
      handed = HandOver(now_ns);
      end_ns = shared().clock->NowNs();
      did = did || !locked;
    }
    if (more) continue;
    NextPartition();
    ++looked;
  }
  spent_ns_ += std::min(end_ns - now_ns, kMostOfAStepNs);
  const int64_t due_ns = !left_.empty() || !table.Swept(wanted_us_) ? 0 : TableDueNs();
  set_due_ns(did ? due_ns : std::max(due_ns, end_ns + kLockedNs));
}

// Sweeps a few buckets. Returns whether the partition has more to sweep now.
bool Sweep::SweepPartition(bool to_now, int64_t now_ns, bool* locked) {
  bool more = false;
  *locked = !TryLocked([&] { more = shared().table->Sweep(partition(), kBucketsInOneHold, now_ns, &left_, to_now); });
  return more;
}

// Hands over `left_`. Returns whether all were taken: a busy gate takes the others later.
bool Sweep::HandOver(int64_t now_ns) {
  while (!left_.empty()) {
    const kv::ExpiredItem& item = left_.back();
    if (shared().gate != nullptr) {
      if (!shared().gate->ExpireUnasked(item.hash, item.key)) return false;
    } else if (shared().counters != nullptr) {
      shared().counters->Expire(item.key, item.hash, shared().time.At(now_ns));
    }
    left_.pop_back();
  }
  return true;
}

}  // namespace farlook::server
