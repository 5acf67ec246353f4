// A worker: the connections of some clients, their sessions, and what their requests do to the table.
//
//     mailbox -> Admission -> Link -> (a batch of messages: decode, prefetch, prefetch) -> Session::Begin
//             -> Executor, PullQueue, HeldWrites or RoomQueue -> Session::Finish -> ReplyQueue
//
// It is driven by Poll(), has no thread and no clock of its own, and never waits. A batch of messages goes through
// three passes, so that the cache misses of different requests overlap: decode and prefetch buckets, prefetch items,
// apply and answer.
//
// Thread safety: one thread at a time, but for Deliver(), load() and stats().
// Invariants:
//   * a session is attached to at most one connection. A resumption first disconnects and drains the old one: what it
//     had queued is discarded, what it pulled is finished or flushed; only then is the new one welcome;
//   * each request that is claimed is answered, or released when its connection breaks before it is executed;
//   * writes of a session to one key take effect in the order in which they arrive, small and pulled ones alike;
//   * a client that breaks the protocol, or does not say who it is in time, loses its connection, and no other does;
//   * on the path of a request that is all right: no allocation, no system call of ours, no log line; one reading of the
//     clock for each batch. (Behind the answers a system call in 100 us: see lock_times.h.)
#ifndef FARLOOK_SERVER_WORKER_H_
#define FARLOOK_SERVER_WORKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/handshake.h"
#include "kv/message.h"
#include "rdma/transport.h"
#include "server/admission.h"
#include "server/counter_links.h"
#include "server/drain.h"
#include "server/executor.h"
#include "server/link.h"
#include "server/log.h"
#include "server/mailbox.h"
#include "server/room_turns.h"
#include "server/session.h"
#include "server/shared.h"
#include "server/sweep.h"
#include "server/worker_stats.h"

namespace farlook::server {

class Worker {
 public:
  // `wake` is called on the thread of Deliver(), to have Poll() called.
  Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake);
  // Destroys the connections; orderly only when drained().
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Adds a place where clients come from: an endpoint of a listener, which the worker uses from now on and which
  // outlives it, and the ranges of the table and of the counters' cells as its clients name them. The first is port 0,
  // and so on. `cells` with rkey 0: its clients use messages.
  void AddPort(rdma::Endpoint* endpoint, const rdma::RemoteRange& table, const rdma::RemoteRange& cells = {});

  // Hands a client over. Any thread.
  void Deliver(Arrival arrival);
  // Connections, and clients delivered and not yet let in. Any thread.
  int64_t load() const { return load_.load(std::memory_order_relaxed); }

  // Makes progress; returns how many things it did, 0 if there was nothing.
  size_t Poll();

  // Sleeping: if Arm() returns true, call Poll() when an endpoint's fd() is readable, after a wake, or at due_ns() at
  // the latest. False: Poll() again.
  bool Arm();
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t due_ns() const { return due_ns_; }

  // Begins to shut down: clients that arrive are turned away; requests that have arrived are answered, later ones with
  // kShuttingDown; then, or at `deadline_ns`, connections are closed. Poll() until drained().
  void BeginDrain(int64_t deadline_ns) { drain_.Begin(shared_.clock->NowNs(), deadline_ns); }
  bool drained() const { return drain_.disconnects() && links_.empty(); }

  const WorkerStats& stats() const { return stats_; }

 private:
  static constexpr size_t kBatch = 64;

  struct Port {
    rdma::Endpoint* endpoint;
    rdma::RemoteRange table;
    rdma::RemoteRange cells;
  };
  // A message of the batch in hand.
  struct Incoming {
    absl::StatusOr<kv::Request> request;
    uint64_t hash = 0;
    bool hashed = false;
  };

  // Letting clients in.
  void Admit(Arrival arrival);
  void Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason);
  void Greet(Link& link, absl::string_view message);
  void Consider(Link& link);
  void WaitForPredecessor(Link& link, Link& old);
  void Welcome(Link& link, Session* session, bool resumed);
  void Refuse(Link& link, kv::Refusal refusal);
  size_t CloseSilent(int64_t looked_ns);

  // Serving them.
  void HandleBatch(absl::Span<const rdma::Completion> batch);
  void Decode(absl::string_view message, Incoming* incoming);
  void Apply(Link& link, absl::string_view message, const Incoming& incoming);
  void ApplyUnnumbered(Link& link, const kv::Request& request);
  void ExecuteInOrder(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message);
  void Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message);
  Outcome Try(Link& link, const kv::Request& request, uint64_t hash, bool may_step, absl::string_view* payload);
  void Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload = {});
  void Send(Link& link, absl::string_view head, absl::string_view payload);
  void AnswerEndedPulls(Link& link);
  void ContinueHeld(Link& link);
  size_t MakeRoom();
  void TakeRoomTurn(Link& link);
  size_t PollCounters();

  // Loose ends: what the send queue did not take.
  void MarkUnfinished(Link& link);
  size_t ContinueUnfinished();
  bool Continue(Link& link);
  void WantRing(Link& link);
  void RingAll();

  // Letting them go.
  void Drop(Link& link, absl::string_view reason);
  void Close(Link& link);
  void Discard(Link& link);
  void OnDisconnected(Link& link);
  void Part(Session* session, Link* successor);
  bool AdvanceDrain(bool idle);
  void UpdateGauges();

  const Shared shared_;
  Admission admission_;
  WorkerStats stats_;  // before those that note in it
  Executor executor_;
  Drain drain_;
  Sweep sweep_;
  Mailbox mailbox_;
  std::vector<Port> ports_;
  absl::flat_hash_map<Link*, std::unique_ptr<Link>> links_;
  std::atomic<int64_t> load_{0};
  std::unique_ptr<CounterLinks> counter_links_;  // null without counters

  int64_t now_ns_ = 0;  // read once for each batch
  std::array<rdma::Completion, kBatch> completions_;
  std::array<Incoming, kBatch> incoming_;
  std::vector<Link*> unrung_;
  std::vector<Link*> unfinished_;
  RoomTurns<Link> room_turns_;  // of those with writes that wait for room
  std::vector<Link*> silent_;   // that have said no Hello, or were refused: each has a due_ns

  int64_t due_ns_ = kNever;
  int64_t retry_ns_ = 0;  // the pause before the next look at unfinished_

  RateLimit drop_log_;
  RateLimit reject_log_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_H_
