#include "server/replication/slot_cleaner.h"

namespace farlook::server {

SlotCleaner::Progress SlotCleaner::Step(size_t buckets) {
  // A walk does not meet the key of a pending write that creates an item: wait until such writes have ended.
  if (!is_begun_ && gate_->HasPending(slots_)) return Progress::kWaits;
  is_begun_ = true;
  while (!owed_.empty()) {
    if (!gate_->EraseUnasked(owed_.front().hash, owed_.front().key)) return Progress::kWaits;
    owed_.pop_front();
  }
  if (partition_ == table_->partitions()) return Progress::kDone;
  kv::LockedPartition lock(locks_->at(partition_));
  const bool more = table_->Walk(partition_, &place_, buckets, [this](uint64_t hash, const kv::ItemView& item) {
    if (slots_[kv::ClusterSlotOf(hash)]) owed_.push_back({hash, std::string(item.key)});
  });
  if (!more) {
    ++partition_;
    place_ = {};
  }
  return Progress::kMore;
}

}  // namespace farlook::server
