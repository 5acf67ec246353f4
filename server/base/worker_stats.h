// Figures of one worker, for kStat.
//
// Thread safety: the worker's thread adds, any thread reads. A figure has one writer, so adding is a load and a store,
// without a locked instruction.
#ifndef FARLOOK_SERVER_BASE_WORKER_STATS_H_
#define FARLOOK_SERVER_BASE_WORKER_STATS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "server/base/lock_times.h"

namespace farlook::server {

class Counter {
 public:
  [[gnu::always_inline]] void Add(uint64_t n = 1) { Set(value() + n); }
  void Set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct WorkerStats {
  std::array<Counter, kv::kRequestTypes> requests;  // by type, as they arrived
  std::array<Counter, kv::kCodes> replies;          // by code
  Counter resent_requests;                          // answered from memory, or already under way
  Counter postponed_replies;                        // found the send queue full
  Counter looks_at_stuck;                           // checks whether a full send queue has room again
  Counter receive_pauses;                           // times that reading from a connection was suspended
  Counter longest_turn_bytes;                       // most bytes of values copied or hashed in one turn
  Counter longest_shared_turn_bytes;                // the same while others had requests
  Counter held_writes;                              // waited for an earlier write to the same key
  Counter waits_for_room;                           // writes for which room had to be made in several steps
  Counter longest_room_wait_us;                     // of finished waits
  Counter room_steps;                               // steps made for them
  Counter pulls;                                    // begun
  Counter pulled_bytes;                             // of values that arrived whole
  Counter failed_pulls;                             // kBadValue
  Counter cut_pulls;                                // cut off by a disconnect; not executed
  Counter accepted;                                 // connections
  Counter rejected;
  Counter dropped;  // for breaking the protocol
  Counter resumed;  // connections that resumed a session
  Counter refused_resumptions;
  Counter impatient_drops;  // connections that did not acknowledge deleted counters in time
  Counter refused;          // connections whose Hello was answered with a refusal
  Counter silent_drops;     // connections that did not send their Hello, or prove their identity, in time
  Counter failed_proofs;    // connections that named a user and did not know its secret

  // Reported by clients of a cache.
  Counter reported_gets, reported_hits;
  Counter touches;          // of items that may be evicted
  Counter ignored_touches;  // malformed, of absent or never evicted items, or more than there was time for

  // Reported by clients about their gets.
  Counter client_gets, client_hits;
  Counter clipped_figures;  // messages that claim more than a client can do

  // Sampled durations of requests, by type (request_times.h).
  std::array<std::array<Counter, kv::DurationBuckets::kBuckets>, kv::kRequestTypes> request_times;
  Counter slow_requests;

  LockTimes lock_times;

  void NoteRoomWait(int64_t ns) {
    const uint64_t us = static_cast<uint64_t>(ns) / 1000;
    if (us > longest_room_wait_us.value()) longest_room_wait_us.Set(us);
  }

  // Present values.
  Counter reporting_clients;  // clients with recent figures; the next two are theirs
  Counter client_gets_per_s;
  std::array<Counter, kv::DurationBuckets::kBuckets> get_times;
  Counter touch_sample;      // one hit in this many is reported; 0: none
  Counter waiting_for_room;  // connections with such writes
  Counter connections;
  Counter clients_within_atomics;  // closed, but kept until their clients leave the atomic
  Counter sessions;                // with and without a connection
  Counter kept_sessions;           // without a connection
  Counter message_bytes;           // Endpoint::message_bytes() of its ports
  Counter kept_bytes;              // Link::kept_bytes() of all
  Counter paused_connections;      // that are not read from, since too many bytes are kept for them
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_WORKER_STATS_H_
