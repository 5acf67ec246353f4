#include "server/executor/room_turns.h"

#include <algorithm>

namespace farlook::server {

bool RoomQueue::Has(uint64_t hash) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [hash](const Waiting& one) { return one.hash == hash; });
}

std::vector<uint64_t> RoomQueue::Clear() {
  std::vector<uint64_t> numbers;
  for (const Waiting& one : waiting_) numbers.push_back(one.number);
  waiting_.clear();
  bytes_ = 0;
  return numbers;
}

}  // namespace farlook::server
