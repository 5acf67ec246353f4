#include "kv/counters/cell_quarantine.h"

#include <algorithm>

namespace farlook::kv {

CellQuarantine::Holder CellQuarantine::Enroll() {
  holders_.emplace(++last_holder_, Noticed{last_, last_});
  acknowledged_.insert(last_);
  return last_holder_;
}

void CellQuarantine::Leave(Holder holder) {
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  acknowledged_.erase(acknowledged_.find(found->second.acknowledged));
  holders_.erase(found);
  Release();
}

void CellQuarantine::Retire(uint64_t cell, uint64_t key_hash) {
  queue_.push_back({cell, key_hash});
  ++last_;
  if (holders_.empty()) Release();
}

uint64_t CellQuarantine::NextNotice(Holder holder, size_t most, std::vector<uint64_t>* hashes) {
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return 0;
  Noticed& noticed = found->second;
  if (noticed.sent != noticed.acknowledged || noticed.sent == last_) return 0;
  const uint64_t first = last_ - queue_.size() + 1;  // the number of queue_.front()
  const uint64_t end = std::min<uint64_t>(last_, noticed.sent + most);
  for (uint64_t number = noticed.sent + 1; number <= end; ++number) {
    hashes->push_back(queue_[number - first].key_hash);
  }
  return noticed.sent = end;
}

bool CellQuarantine::Acknowledge(Holder holder, uint64_t number) {
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return false;
  Noticed& noticed = found->second;
  if (number != noticed.sent || number == noticed.acknowledged) return false;
  acknowledged_.erase(acknowledged_.find(noticed.acknowledged));
  acknowledged_.insert(number);
  noticed.acknowledged = number;
  Release();
  return true;
}

void CellQuarantine::TakeReleased(std::vector<uint64_t>* cells) {
  cells->insert(cells->end(), released_.begin(), released_.end());
  released_.clear();
}

void CellQuarantine::Release() {
  const uint64_t least = acknowledged_.empty() ? last_ : *acknowledged_.begin();
  while (last_ - queue_.size() < least) {
    released_.push_back(queue_.front().cell);
    queue_.pop_front();
  }
}

}  // namespace farlook::kv
