// Writes for which room is being made, and whose turn it is.
//
// When memory is full of holes the table makes room in steps, a call each, and says kMakingRoom until there is enough.
// Such a write waits here, outside the partition's lock. A worker makes one step at a time, for one connection after
// the other, and serves everybody else in between: while it has other requests, steps take a sixth of its time, so that
// of a hundred requests of another client less than one meets a step (docs/reports/2026-11-23-room.md). So neither a
// put of 64 MiB nor many puts at once starve those who need no room.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_ROOM_TURNS_H_
#define FARLOOK_SERVER_ROOM_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::server {

// After so long a write is refused: the table promises to come to an end, but others may take what was made.
inline constexpr int64_t kLongestRoomWaitNs = 30'000'000'000;

// The writes of one connection whose values came with them, in the order in which they came. Those whose values are
// pulled wait in the PullQueue. At most the session's window of them.
class RoomQueue {
 public:
  struct Waiting {
    uint64_t number;
    uint64_t hash;
    int64_t since_ns;
    std::string message;  // the whole request
  };

  void Add(uint64_t number, uint64_t hash, int64_t now_ns, absl::string_view message) {
    waiting_.push_back({number, hash, now_ns, std::string(message)});
    bytes_ += BytesOf(waiting_.back());
  }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // Of memory that they take.
  size_t bytes() const { return bytes_; }
  // Whether a write to a key of this hash waits.
  bool Has(uint64_t hash) const;
  const Waiting& front() const { return waiting_.front(); }
  void PopFront() {
    bytes_ -= BytesOf(waiting_.front());
    waiting_.pop_front();
  }
  // The numbers of all that wait, which are forgotten.
  std::vector<uint64_t> Clear();

 private:
  static size_t BytesOf(const Waiting& one) { return sizeof(one) + one.message.size(); }

  std::deque<Waiting> waiting_;
  size_t bytes_ = 0;
};

// Which connection's turn it is, and whether it is time. `Member` is a Link; it is in at most once.
template <class Member>
class RoomTurns {
 public:
  // Of each so many parts of a worker's time one is for steps, while there are other requests.
  static constexpr int64_t kParts = 6;
  // A step does less than a millisecond's work. One that took longer was in a process that stood still, and those who
  // wait for room do not pay for that again.
  static constexpr int64_t kLongestRestNs = 2'000'000;

  bool empty() const { return members_.empty(); }
  size_t size() const { return members_.size(); }
  bool Has(const Member* member) const { return std::find(members_.begin(), members_.end(), member) != members_.end(); }
  void Add(Member* member) {
    if (!Has(member)) members_.push_back(member);
  }
  void Remove(Member* member) { std::erase(members_, member); }

  // Takes out whose turn it is, or null: then it is not time before due_ns(). REQUIRES !empty().
  Member* Take(int64_t now_ns) {
    if (now_ns < due_ns_) return nullptr;
    Member* const member = members_.front();
    members_.pop_front();
    return member;
  }
  // A step took from `start_ns` to `end_ns`.
  void Took(int64_t start_ns, int64_t end_ns) {
    end_ns_ = due_ns_ = end_ns;
    rest_ns_ = std::min((kParts - 1) * (end_ns - start_ns), kLongestRestNs);
  }
  // Others had requests; called as often as one likes.
  void OthersServed() { due_ns_ = end_ns_ + rest_ns_; }
  int64_t due_ns() const { return due_ns_; }

 private:
  std::deque<Member*> members_;
  int64_t end_ns_ = 0;   // of the last step
  int64_t rest_ns_ = 0;  // that follows it while others are served
  int64_t due_ns_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ROOM_TURNS_H_
