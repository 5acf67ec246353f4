// A worker: serves the connections of some clients. This class drives its parts:
//
//     Door             lets clients in, and ends those that must not stay
//     RequestHandler   executes the requests of welcome clients
//     GroupDesk        in a group: requests that wait for the other members, and backups
//     Outbox           sends messages, and keeps what a send queue does not take
//     CounterLinks     notices of deleted counters
//     WorkerContext    what these share
//
// It is driven by Poll(), has no thread and no clock of its own, and never waits. A batch of messages is handled in
// three passes, so that the cache misses of different requests overlap: decode and prefetch buckets, prefetch items,
// execute and answer.
//
// Invariants:
//   * a session is attached to at most one connection. A resumption first disconnects and drains the old one: what it
//     had queued is discarded, what it pulled is finished or flushed; only then is the new one welcome;
//   * each request that is claimed is answered, or released when its connection breaks before it is executed. This
//     holds for each request of a message with several;
//   * writes of a session to one key take effect in the order in which they arrive, small and pulled ones together;
//   * if the server has users, a connection without kernel credentials gets no data and may READ nothing before it has
//     proved its user, within the time limit of the Hello;
//   * a client that breaks the protocol, or does not send its Hello in time, loses its connection, and no other does;
//   * between two looks at messages a worker does a bounded amount of each kind of other work: one arrival, one turn of
//     one connection's pulled values, one step towards room, Outbox::kLooks looks at full send queues. Clients that
//     connect and disconnect get a share of its time (time_share.h) while others have requests;
//   * while more than Shared::max_kept_bytes are kept for a connection, nothing is received from it. Beyond that at most
//     the messages of one Poll() are kept;
//   * the path of an ordinary request has no allocation, no system call of ours and no log line, and reads the clock once
//     for each batch. (After the answers there is a system call in 100 us: see lock_times.h.)
#ifndef FARLOOK_SERVER_WORKER_WORKER_H_
#define FARLOOK_SERVER_WORKER_WORKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/layout/key_place.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"
#include "server/base/log.h"
#include "server/base/worker_stats.h"
#include "server/executor/mailbox.h"
#include "server/executor/shared.h"
#include "server/session/reply_cache.h"
#include "server/session/session.h"
#include "server/worker/admission.h"
#include "server/worker/counter_links.h"
#include "server/worker/door.h"
#include "server/worker/group_desk.h"
#include "server/worker/link.h"
#include "server/worker/outbox.h"
#include "server/worker/request_handler.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

// Thread safety: one thread at a time, except for Deliver(), Do(), load(), waiting() and stats().
class Worker final : private LinkCloser {
 public:
  static constexpr int64_t kNever = WorkerContext::kNever;
  // A worker that got no request for this time is idle, and sweeps without a pause.
  static constexpr int64_t kIdleAfterNs = 50'000;

  // `wake` is called on the thread of Deliver(), to have Poll() called.
  Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake);
  // Destroys the connections; orderly only when drained().
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Adds an endpoint of a listener. It outlives the worker, and only the worker uses it from now on. `table` and
  // `cells` are the ranges of the table and of the counters' cells as its clients name them; `cells` with rkey 0: its
  // clients use messages. The first endpoint is port 0, and so on.
  void AddPort(rdma::Endpoint* endpoint, const rdma::RemoteRange& table, const rdma::RemoteRange& cells = {}) {
    door_.AddPort({endpoint, table, cells});
  }

  // Restores the sessions of the former primary, when a backup becomes the primary. REQUIRES that no client was
  // delivered yet.
  void Restore(uint64_t incarnation, const ReplyCache& outcomes) {
    admission_.Restore(incarnation, outcomes, context_.shared.clock->NowNs());
    NoteExpiry();  // items that the backup received may expire
  }
  // Notes that items with an expiry were added otherwise than by requests. On the worker's thread.
  void NoteExpiry() { context_.sweep.Noted(); }

  // In a group: see GroupDesk::AppendReplies(), GroupDesk::Do() and BackupFeeds::fills().
  bool AppendReplies(uint64_t from, OutcomesToReport* rest) { return group_.AppendReplies(from, rest); }
  void Do(std::function<bool()> task) { group_.Do(std::move(task)); }
  bool fills() const { return group_.feeds().fills(); }

  // Hands a client over. Any thread.
  void Deliver(Arrival arrival) { door_.Deliver(std::move(arrival)); }
  // Connections, and clients delivered and not yet admitted. Any thread.
  int64_t load() const { return door_.load(); }
  // Clients delivered and not yet admitted. Any thread.
  size_t waiting() const { return door_.waiting(); }

  // Makes progress. Returns how many things it did, 0 if there was nothing to do.
  size_t Poll();

  // Prepares to sleep. If it returns true, call Poll() when an endpoint's fd() is readable, after a wake, or at
  // due_ns() at the latest; if false, call Poll() again.
  bool Arm();
  int64_t due_ns() const { return context_.due_ns; }

  // Begins to shut down: clients that arrive are rejected; requests that have arrived are answered, later ones with
  // kShuttingDown; then, or at `deadline_ns`, connections are closed. Poll() until drained().
  void BeginDrain(int64_t deadline_ns) { context_.drain.Begin(context_.shared.clock->NowNs(), deadline_ns); }
  bool drained() const { return context_.drain.disconnects() && door_.links().empty(); }
  // Rejects the clients that were delivered and not yet admitted. REQUIRES drained(), and that Poll() is not called any
  // more.
  void TurnAwayTheRest() { door_.RejectTheRest(); }

  const WorkerStats& stats() const { return context_.stats; }
  // Connections that are not yet authenticated and count toward Shared::max_unproven().
  int64_t unproven() const { return door_.unproven(); }

 private:
  static constexpr size_t kBatch = 64;

  // A message of the batch in hand.
  struct Incoming {
    bool is_plain = false;  // it is `plain`; otherwise it is `request`, if `status` is OK
    bool has_key = false;
    kv::PlainPut plain;
    kv::KeyPlace place;   // the key's
    absl::Status status;  // not OK: it is no request
    kv::Request request;
  };

  // Batches.
  void HandleBatch(absl::Span<const rdma::Completion> batch);
  void Decode(absl::string_view message, Incoming* incoming);
  void Apply(Link& link, absl::string_view message, Incoming& incoming);
  void OnOther(Link& link, absl::string_view message, const absl::Status& status);

  // Turns.
  size_t PollCounters(int64_t looked_ns);
  size_t PollSweep(bool idle);
  void PollHousekeeping(bool idle);

  // Ends.
  void Drop(Link& link, absl::string_view reason) override;
  void Close(Link& link) override;
  void OnDisconnected(Link& link);
  bool Unfinished() const;
  bool AdvanceDrain(bool idle);

  WorkerContext context_;
  Admission admission_;
  Outbox outbox_;
  GroupDesk group_;
  std::unique_ptr<CounterLinks> counter_links_;  // null without counters
  RequestHandler requests_;
  Door door_;  // has the connections: destroyed before what they are in
  std::array<rdma::Completion, kBatch> completions_;
  std::array<Incoming, kBatch> incoming_;
  RateLimit drop_log_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_WORKER_H_
