#include "server/refill.h"

#include "absl/synchronization/mutex.h"

namespace farlook::server {

// False: the stream is full.
bool Refill::AppendCopies() {
  if (copying_.empty()) return true;
  const uint64_t sequence = gate_->AppendCopies(copying_);
  if (sequence == 0) return false;
  last_ = sequence;
  copies_ += copying_.size();
  return true;
}

// Each of them once. Whether nothing is owed any more.
bool Refill::PayOwed() {
  for (size_t i = owed_.size(); i > 0; --i) {
    const uint64_t hash = table_->HashOf(owed_.front());
    absl::MutexLock lock(locks_->of(hash));
    kv::ItemView item;
    const bool is_there = table_->Get(hash, owed_.front(), &item).code == kv::Code::kOk;
    const CommitGate::CopyNeed need = gate_->NeedOfCopy(hash, owed_.front(), is_there, from_);
    copying_.clear();
    if (need == CommitGate::CopyNeed::kNeeded) copying_.push_back(CommitGate::CopyOf(item));
    if (need == CommitGate::CopyNeed::kNotNow || !AppendCopies()) owed_.push_back(std::move(owed_.front()));
    owed_.pop_front();
  }
  return owed_.empty();
}

// What the next few buckets hold, in one piece. False: the stream is full.
bool Refill::WalkOn() {
  absl::MutexLock lock(locks_->at(partition_));
  if (!is_begun_) {
    const uint64_t told = gate_->BeginCopies(partition_, from_, [this](uint64_t hash, absl::string_view key) {
      kv::ItemView item;  // what is there the walk meets
      if (IsWanted(hash) && table_->Get(hash, key, &item).code != kv::Code::kOk) owed_.emplace_back(key);
    });
    if (told == 0) return false;
    last_ = told;
    is_begun_ = true;
  }
  copying_.clear();
  std::vector<std::string> later;
  kv::WalkPlace place = place_;
  const bool more = table_->Walk(partition_, &place, kBucketsOfAHold, [&](uint64_t hash, const kv::ItemView& item) {
    if (!IsWanted(hash)) return;
    const CommitGate::CopyNeed need = gate_->NeedOfCopy(hash, item.key, /*is_there=*/true, from_);
    if (need == CommitGate::CopyNeed::kNeeded) copying_.push_back(CommitGate::CopyOf(item));
    if (need == CommitGate::CopyNeed::kNotNow) later.emplace_back(item.key);
  });
  if (!AppendCopies()) return false;
  owed_.insert(owed_.end(), later.begin(), later.end());
  place_ = place;
  if (!more) {
    ++partition_;
    is_begun_ = false;
    place_ = {};
  }
  return true;
}

Refill::Progress Refill::Step(size_t buckets) {
  if (!PayOwed()) return Progress::kWaits;
  for (size_t looked = 0; looked < buckets; looked += kBucketsOfAHold) {
    if (partition_ == table_->partitions()) return Progress::kDone;
    if (!WalkOn() || !owed_.empty()) return Progress::kWaits;
  }
  return Progress::kMore;
}

}  // namespace farlook::server
