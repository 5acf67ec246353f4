// The room of a group's members, as its primary knows it. Each backup reports its room with its acceptances (kv::Room).
// A write that needs more memory is refused if a member might not have it, beside what is on its way to that member.
//
//     growth:          the bytes that all records together need for good, from the first record on
//     a member's limit: the growth up to the record that it accepted, and the room that it reported with that
//     a write has room: growth + its bytes <= the least limit of the members
//
// Thread safety: HasRoomFor(): any thread. All others: one thread at a time.
#ifndef FARLOOK_SERVER_REPLICATION_ROOM_BUDGET_H_
#define FARLOOK_SERVER_REPLICATION_ROOM_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "kv/wire/room.h"

namespace farlook::server {

class RoomBudget {
 public:
  // Returns whether all members that count have room for a piece of `bytes`.
  bool HasRoomFor(uint64_t bytes) const {
    const uint64_t growth = growth_.load(std::memory_order_relaxed) + bytes;
    if (growth > limit_.load(std::memory_order_relaxed)) return false;
    return bytes <= kv::Room::kShortBytes || growth <= long_limit_.load(std::memory_order_relaxed);
  }

  // Records up to `sequence`, the last one, were appended, which need `bytes` more memory.
  void Appended(uint64_t sequence, uint64_t bytes);
  // A follower has accepted the records up to `accepted`, and then had this room. A late report is ignored.
  void OnAccepted(uint64_t follower, uint64_t accepted, const kv::Room& room);
  void Forget(uint64_t follower);
  // Sets the members whose room counts. A member that has not reported yet does not count.
  void SetMembers(const std::vector<uint64_t>& members);
  // Forgets all followers and records.
  void Clear();

 private:
  struct Report {
    uint64_t accepted;
    uint64_t limit, long_limit;
  };
  // The growth up to a record.
  struct Mark {
    uint64_t sequence, growth;
  };

  uint64_t GrowthUpTo(uint64_t sequence) const;
  void Update();

  std::vector<uint64_t> members_;
  std::map<uint64_t, Report> reports_;  // by follower
  std::deque<Mark> marks_;              // of records that some member has not accepted
  Mark base_{0, 0};                     // before these
  std::atomic<uint64_t> growth_{0};
  std::atomic<uint64_t> limit_{kv::Room::kAny}, long_limit_{kv::Room::kAny};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_ROOM_BUDGET_H_
