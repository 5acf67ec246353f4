// Operations of slots that move between the groups of a cluster: their queue, their deadlines, their order, and when
// they are tried again.
//
//     a core, which was answered `moved` -+-> the slot's queue -> the core that has the slot         Turn()
//     Start(), while the slot is closed --+                    -> DEADLINE_EXCEEDED
//
// A slot is closed (slot_owners.h) when an operation of it is refused, or its owner changes. It opens when none of its
// requests is in flight at any core. A slot that its own owner refused stays closed for a pause, which doubles while
// refusals follow one another.
//
// The order rule: writes of a client to one key take effect in the order in which they were started. Proof:
//
//   1. While the slot is open its writes go to one core. Its session numbers and sends them in order, and the server
//      executes them in the order of their numbers.
//   2. While the slot is closed no write of it is sent for the first time. When it opens, each write of it has ended or
//      is in the slot's queue, since no core has a request of it. So it remains to show that the queue has the order.
//   3. The queue has two parts. `returned` has the operations that a core had, in the order in which they came back.
//      `started` has those that were started after the slot was closed, so they are later than all of `returned`.
//   4. A server that refuses a write refuses all later ones of the slot on that connection (docs/protocol.md, "Order").
//      So refused writes are later than the executed ones, and they come back in order.
//   5. The next connection may lead to a server that does not know of the refusal. Requests of a closed slot are resent
//      there with kOnlyAsked: the server answers a write from memory if it was executed, and else refuses it. Such a
//      write comes back after later ones that were refused before. It is put in front of the writes of its key that
//      were sent after it, which Operation::number shows: all are of one session, as the slot was never open meanwhile.
//   6. A core returns unsent writes of a slot only if no sent one of it lacks a reply. They are later than all that the
//      core had sent, which came back before, so they belong at the end of `returned`.
//   7. Open slots send their queues in order to one core. The first write carries kAfterMoved, which ends the refusals
//      of 4.
//
// Reads have no such order.
#ifndef FARLOOK_CLIENT_CORE_MOVED_OPERATIONS_H_
#define FARLOOK_CLIENT_CORE_MOVED_OPERATIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "client/core/core.h"
#include "client/core/slot_owners.h"
#include "client/op/client_stats_report.h"
#include "client/op/finished.h"
#include "client/op/last_time.h"
#include "client/op/latencies.h"
#include "client/op/operation.h"
#include "client/op/timeouts.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/wire/cluster_map.h"
#include "rdma/clock.h"

namespace farlook::client {

// Thread safety: one thread. Owners and clock outlive it.
class MovedOperations {
 public:
  MovedOperations(SlotOwners* owners, const ClientOptions& options, const rdma::Clock& clock);
  MovedOperations(const MovedOperations&) = delete;
  MovedOperations& operator=(const MovedOperations&) = delete;

  // Starts an operation, or ends it if it is invalid. REQUIRES that its slot has no Route(), and that its hash is set.
  // kNoDeadline: its own timeout begins now.
  void Start(Operation* operation, int64_t deadline_ns);
  // Takes over an operation that a core had, with its deadline.
  void Return(Operation* operation);
  // Ends overdue operations, takes over those that the cores return, and resumes those whose slots may open. `cores`
  // are in the order of SlotOwners.
  void Turn(absl::Span<ClientCore* const> cores);
  // Hands the operations of the slots to `resume`, each slot's in order. Marks the first write of each slot.
  void Release(const kv::SlotSet& slots, absl::FunctionRef<void(Operation*)> resume);
  // Ends operations for which `which` is true, as if they had expired.
  void GiveUp(absl::FunctionRef<bool(const Operation*)> which);

  // Returns whether operations wait.
  bool holds() const { return !queues_.empty(); }
  // Returns operations that have ended.
  size_t Take(absl::Span<Operation*> done) { return finished_.Take(done); }
  bool has_ended() const { return !finished_.empty(); }
  size_t in_flight() const { return finished_.in_flight(); }
  // Returns when Turn() has work that no core knows of, perhaps in the past; kNoDeadline: never.
  int64_t due_ns(int64_t now_ns);
  int64_t NowNs() { return time_.NowNs(); }

  const ClientStats& stats() const { return stats_; }
  uint64_t memory_bytes() const { return sizeof *this + queues_.size() * sizeof(Queue); }

 private:
  // Pause between two tries of slots that their owners refuse. It doubles while tries follow one another within
  // kForgetNs.
  static constexpr int64_t kLeastPauseNs = 1'000'000, kMostPauseNs = 20'000'000, kForgetNs = 100'000'000;

  // The operations of one slot. See the order rule.
  struct Queue {
    OperationQueue returned, started;
  };

  void TakeReturned(absl::Span<ClientCore* const> cores);
  void Refused(size_t core, size_t slot, int64_t now_ns);
  void Open(absl::Span<ClientCore* const> cores);
  void EndOverdue(DeadlineList* over);

  SlotOwners* const owners_;
  const bool read_only_, gets_by_messages_;
  LastTime time_;
  ClientStats stats_;
  ClientStatsReport stats_report_;
  Latencies latencies_;
  Finished finished_;
  Timeouts timeouts_;
  std::map<size_t, Queue> queues_;                     // by slot; none is empty
  std::array<uint8_t, kv::kClusterSlots> refused_by_;  // the core since the slot was closed, or SlotOwners::kNone
  int64_t pause_ns_ = 0, next_try_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_MOVED_OPERATIONS_H_
