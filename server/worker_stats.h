// What one worker has done, for kStat.
//
// Thread safety: the worker's thread adds, any thread reads. A figure has one writer, so adding is a load and a store,
// without a locked instruction.
#ifndef FARLOOK_SERVER_WORKER_STATS_H_
#define FARLOOK_SERVER_WORKER_STATS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kv/message.h"
#include "server/lock_times.h"

namespace farlook::server {

class Counter {
 public:
  void Add(uint64_t n = 1) { Set(value() + n); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct WorkerStats {
  std::array<Counter, kv::kRequestTypes> requests;  // by type, as they arrived
  std::array<Counter, kv::kCodes> replies;          // by code
  Counter resent_requests;                          // answered from memory, or under way already
  Counter postponed_replies;                        // found the send queue full
  Counter held_writes;                              // waited for an earlier write to the same key
  Counter waits_for_room;                           // writes for which room had to be made in several steps
  Counter longest_room_wait_us;                     // of those that have ended
  Counter room_steps;                               // that were made for them
  Counter pulls;                                    // begun
  Counter pulled_bytes;                             // of values that arrived whole
  Counter failed_pulls;                             // kBadValue
  Counter cut_pulls;                                // by a disconnect; not executed
  Counter accepted;                                 // connections
  Counter rejected;
  Counter dropped;  // for breaking the protocol
  Counter resumed;  // connections that went on with a session
  Counter refused_resumptions;
  Counter impatient_drops;  // connections that did not acknowledge deleted counters in time
  Counter refused;          // connections whose Hello was answered with a refusal
  Counter silent_drops;     // connections that did not say their Hello in time

  LockTimes lock_times;

  void NoteRoomWait(int64_t ns) {
    const uint64_t us = static_cast<uint64_t>(ns) / 1000;
    if (us > longest_room_wait_us.value()) longest_room_wait_us.Set(us);
  }

  // At present.
  Counter waiting_for_room;  // connections with such writes
  Counter connections;
  Counter sessions;       // with and without a connection
  Counter kept_sessions;  // without
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_STATS_H_
