#include "server/replication/room_budget.h"

#include <algorithm>

namespace farlook::server {

void RoomBudget::Appended(uint64_t sequence, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t growth = growth_.load(std::memory_order_relaxed) + bytes;
  growth_.store(growth, std::memory_order_relaxed);
  if (members_.empty()) {
    base_ = {sequence, growth};
  } else {
    marks_.push_back({sequence, growth});
  }
}

void RoomBudget::OnAccepted(uint64_t follower, uint64_t accepted, const kv::Room& room) {
  const auto found = reports_.find(follower);
  if (found != reports_.end() && accepted < found->second.accepted) return;
  Report& report = reports_[follower];
  report = {accepted, 0, 0};
  // Otherwise the growth since is not known: it has no room before it has accepted what the members had.
  if (accepted >= base_.sequence) {
    const uint64_t growth = GrowthUpTo(accepted);
    report.limit = growth + std::min(room.bytes, kv::Room::kAny);
    report.long_limit = growth + std::min(room.longest_bytes, kv::Room::kAny);
  }
  Update();
}

void RoomBudget::Forget(uint64_t follower) {
  reports_.erase(follower);
  Update();
}

void RoomBudget::SetMembers(const std::vector<uint64_t>& members) {
  members_ = members;
  Update();
}

void RoomBudget::Clear() {
  members_.clear();
  reports_.clear();
  marks_.clear();
  Update();
}

uint64_t RoomBudget::GrowthUpTo(uint64_t sequence) const {
  const auto after = std::upper_bound(marks_.begin(), marks_.end(), sequence,
                                      [](uint64_t number, const Mark& mark) { return number < mark.sequence; });
  return after == marks_.begin() ? base_.growth : (after - 1)->growth;
}

void RoomBudget::Update() {
  uint64_t limit = kv::Room::kAny * 2, long_limit = limit, needed = ~uint64_t{0};
  for (const uint64_t member : members_) {
    const auto found = reports_.find(member);
    needed = std::min(needed, found == reports_.end() ? 0 : found->second.accepted);
    if (found == reports_.end()) continue;
    limit = std::min(limit, found->second.limit);
    long_limit = std::min(long_limit, found->second.long_limit);
  }
  for (; !marks_.empty() && marks_.front().sequence <= needed; marks_.pop_front()) base_ = marks_.front();
  limit_.store(limit, std::memory_order_relaxed);
  long_limit_.store(long_limit, std::memory_order_relaxed);
}

}  // namespace farlook::server
