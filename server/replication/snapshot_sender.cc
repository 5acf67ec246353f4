#include "server/replication/snapshot_sender.h"

namespace farlook::server {

// Collects a copy for AppendCopies().
void SnapshotSender::Add(const kv::ItemView& item) {
  copying_.push_back(CommitGate::CopyOf(item));
  copying_bytes_ += copying_.back().bytes();
  if (copying_bytes_ >= kBytesTogether) AppendCopies();
}

// Appends the collected copies. If the stream is full, their keys are owed.
void SnapshotSender::AppendCopies() {
  if (copying_.empty()) return;
  if (const uint64_t sequence = gate_->AppendCopies(copying_); sequence != 0) {
    last_ = sequence;
    copies_ += copying_.size();
  } else {
    for (const cluster::Record& copy : copying_) owed_.emplace_back(copy.key);
  }
  copying_.clear();
  copying_bytes_ = 0;
}

// Tries each owed key once. Returns whether none is left.
bool SnapshotSender::PayOwed() {
  for (size_t i = owed_.size(); i > 0; --i) {
    const std::string key = std::move(owed_.front());
    owed_.pop_front();
    const uint64_t hash = table_->HashOf(key);
    kv::LockedPartition lock(locks_->of(hash));
    kv::ItemView item;
    const bool is_there = table_->Get(hash, key, &item).code == kv::Code::kOk;
    const CommitGate::CopyNeed need = gate_->NeedOfCopy(hash, key, is_there, from_);
    if (need == CommitGate::CopyNeed::kNeeded) Add(item);
    if (need == CommitGate::CopyNeed::kNotNow) owed_.push_back(key);
    AppendCopies();
  }
  return owed_.empty();
}

// Copies the next few buckets. False: the stream is full.
bool SnapshotSender::WalkOn() {
  kv::LockedPartition lock(locks_->at(partition_));
  if (!is_begun_) {
    const uint64_t last = gate_->BeginCopies(partition_, from_, [this](uint64_t hash, absl::string_view key) {
      kv::ItemView item;  // the walk meets present items
      if (IsWanted(hash) && table_->Get(hash, key, &item).code != kv::Code::kOk) owed_.emplace_back(key);
    });
    if (last == 0) return false;
    last_ = last;
    is_begun_ = true;
  }
  const bool more = table_->Walk(partition_, &place_, kBucketsOfAHold, [this](uint64_t hash, const kv::ItemView& item) {
    if (!IsWanted(hash)) return;
    const CommitGate::CopyNeed need = gate_->NeedOfCopy(hash, item.key, /*is_there=*/true, from_);
    if (need == CommitGate::CopyNeed::kNeeded) Add(item);
    if (need == CommitGate::CopyNeed::kNotNow) owed_.emplace_back(item.key);
  });
  AppendCopies();
  if (!more) {
    ++partition_;
    is_begun_ = false;
    place_ = {};
  }
  return true;
}

SnapshotSender::Progress SnapshotSender::Step(size_t buckets) {
  if (!PayOwed()) return Progress::kWaits;
  for (size_t looked = 0; looked < buckets; looked += kBucketsOfAHold) {
    if (partition_ == table_->partitions()) return Progress::kDone;
    if (!WalkOn() || !owed_.empty()) return Progress::kWaits;
  }
  return Progress::kMore;
}

}  // namespace farlook::server
