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

#include "kv/duration_buckets.h"
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
  Counter looks_at_stuck;                           // whether a send queue that was full has room
  Counter deaf_times;                               // a connection was not listened to for a while
  Counter longest_turn_bytes;                       // of values, copied or hashed between two looks at messages
  Counter longest_shared_turn_bytes;                // the same while others had requests
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
  Counter silent_drops;     // connections that did not say their Hello, or prove who they are, in time
  Counter failed_proofs;    // connections that said a user and did not know its secret

  // Of a cache, what clients told.
  Counter told_gets, told_hits;
  Counter touches;          // of items that may be evicted
  Counter ignored_touches;  // of nonsense, of what is gone or never evicted, and more than there was time for

  // What clients told of their gets.
  Counter client_gets, client_hits;
  Counter clipped_figures;  // messages that claim more than a client can do

  // How long requests of each type took, a sample (request_times.h).
  std::array<std::array<Counter, kv::DurationBuckets::kBuckets>, kv::kRequestTypes> request_times;
  Counter slow_requests;

  LockTimes lock_times;

  void NoteRoomWait(int64_t ns) {
    const uint64_t us = static_cast<uint64_t>(ns) / 1000;
    if (us > longest_room_wait_us.value()) longest_room_wait_us.Set(us);
  }

  // At present.
  Counter telling_clients;  // whose figures are not old; what follows is theirs
  Counter client_gets_per_s;
  std::array<Counter, kv::DurationBuckets::kBuckets> get_times;
  Counter touch_sample;      // one hit in so many is told; 0: none
  Counter waiting_for_room;  // connections with such writes
  Counter connections;
  Counter clients_within_atomics;  // their connections are over, and not gone
  Counter sessions;                // with and without a connection
  Counter kept_sessions;           // without
  Counter message_bytes;           // Endpoint::message_bytes() of its ports
  Counter kept_bytes;              // Link::kept_bytes() of all
  Counter deaf_connections;        // that are not listened to, since too much is kept for them
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_STATS_H_
