// Writes that wait for room, and the order of their turns.
//
// When memory is fragmented, the table makes room in steps, one for each call, and returns kMakingRoom until there is
// enough. Such a write waits here, outside the partition's lock. A worker makes one step at a time, for one connection
// after the other, and handles other requests in between. While it has other requests, steps take a sixth of its time:
// of a hundred requests of another client less than one meets a step (docs/reports/2026-11-23-room.md). So neither a
// put of 64 MiB nor many puts at once starve clients that need no room.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_EXECUTOR_ROOM_TURNS_H_
#define FARLOOK_SERVER_EXECUTOR_ROOM_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/linked_list.h"

namespace farlook::server {

// Longest wait of a write before it is refused: making room ends, but other writes may take the room.
inline constexpr int64_t kLongestRoomWaitNs = 30'000'000'000;

// Waiting writes of one connection that contain their values, in order of arrival. Pulled values wait in the PullQueue.
// At most the session's window of them.
class RoomQueue {
 public:
  struct Waiting {
    uint64_t number;
    uint64_t hash;
    int64_t since_ns;
    std::string message;  // the whole request
    uint64_t asked = 0;   // see CommitGate::IsRoomKnown()
  };

  void Add(uint64_t number, uint64_t hash, int64_t now_ns, absl::string_view message) {
    waiting_.push_back({number, hash, now_ns, std::string(message)});
    bytes_ += BytesOf(waiting_.back());
  }
  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  // Returns the bytes of memory of the waiting writes.
  size_t bytes() const { return bytes_; }
  // Returns whether a write to a key of this hash waits.
  bool Has(uint64_t hash) const;
  const Waiting& front() const { return waiting_.front(); }
  // All waiting writes had arrived when members were asked for their room by this record.
  void Asked(uint64_t sequence) {
    for (Waiting& one : waiting_) one.asked = one.asked == 0 ? sequence : one.asked;
  }
  void PopFront() {
    bytes_ -= BytesOf(waiting_.front());
    waiting_.pop_front();
  }
  // Removes all waiting writes and returns their numbers.
  std::vector<uint64_t> Clear();

 private:
  static size_t BytesOf(const Waiting& one) { return sizeof(one) + one.message.size(); }

  std::deque<Waiting> waiting_;
  size_t bytes_ = 0;
};

// Tag of the queue of connections that wait for their turn.
struct RoomTurnTag;

// Decides which connection makes the next step, and when. `Member` is a Link.
template <class Member>
class RoomTurns {
 public:
  // Steps take one of this many parts of a worker's time while there are other requests.
  static constexpr int64_t kParts = 6;
  // Longest rest. A step does less than a millisecond's work; if it took longer, the process was suspended. Waiting
  // writes are not delayed for that again.
  static constexpr int64_t kLongestRestNs = 2'000'000;

  bool empty() const { return members_.empty(); }
  size_t size() const { return members_.size(); }
  void Add(Member* member) { members_.Add(member); }
  void Remove(Member* member) { members_.Remove(member); }

  // Removes and returns the member whose turn it is. Returns null before due_ns(). REQUIRES !empty().
  Member* Take(int64_t now_ns) { return now_ns < due_ns_ ? nullptr : members_.Pop(); }
  // A step took from `start_ns` to `end_ns`.
  void Took(int64_t start_ns, int64_t end_ns) {
    end_ns_ = due_ns_ = end_ns;
    rest_ns_ = std::min((kParts - 1) * (end_ns - start_ns), kLongestRestNs);
  }
  // Notes that other clients had requests. May be called repeatedly.
  void OthersServed() { due_ns_ = end_ns_ + rest_ns_; }
  int64_t due_ns() const { return due_ns_; }

 private:
  LinkedQueue<Member, RoomTurnTag> members_;
  int64_t end_ns_ = 0;   // of the last step
  int64_t rest_ns_ = 0;  // after that step, while other clients are served
  int64_t due_ns_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_ROOM_TURNS_H_
