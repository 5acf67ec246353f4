// A worker: the connections of some clients, their sessions, and what their
// requests do to the table.
//
// It is driven by Poll(), has no thread and no clock of its own, and never
// waits.  A batch of messages goes through three passes, so that the cache
// misses of different requests overlap: decode and prefetch buckets, prefetch
// items, apply and answer.
//
// Thread safety: one thread at a time, but for Deliver(), load() and stats().
// Invariants:
//   * a session is attached to at most one connection.  A resumption first
//     disconnects and drains the old one: what it had queued is discarded, what
//     it pulled is finished or flushed; only then is the new one accepted;
//   * each request that is claimed is answered, or released when its connection
//     breaks before it is executed;
//   * a client that breaks the protocol loses its connection, and no other does;
//   * on the path of a request that is all right: no allocation, no system call
//     of ours, no log line; one reading of the clock for each batch.
#ifndef FARLOOK_SERVER_WORKER_H_
#define FARLOOK_SERVER_WORKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/message.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/counter_links.h"
#include "server/counters.h"
#include "server/link.h"
#include "server/log.h"
#include "server/mailbox.h"
#include "server/partition_locks.h"
#include "server/session.h"
#include "server/worker_stats.h"

namespace farlook::server {

// Why clients are turned away while a server stops.
inline constexpr absl::string_view kShuttingDownReason = "the server is shutting down; try again when it is back";

// What the workers of a server share.  All of it outlives them.
struct Shared {
  kv::Table* table = nullptr;
  PartitionLocks* locks = nullptr;
  const rdma::Clock* clock = nullptr;
  uint64_t incarnation = 0;
  uint64_t max_value_bytes = kv::kDefaultMaxValueBytes;
  int64_t max_clients = 1024;
  Counters* counters = nullptr;                 // null: there are none, and no room for any
  int64_t counter_patience_ns = 2'000'000'000;  // how long a connection may take to acknowledge deleted counters
  std::atomic<int64_t>* clients = nullptr;      // connections, of all workers
  // The text that answers kStat; the argument is the request's key.  Any
  // thread may call it.
  std::function<std::string(absl::string_view)> stat;
};

class Worker {
 public:
  // `wake` is called on the thread of Deliver(), to have Poll() called.
  Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake);
  // Destroys the connections; orderly only when drained().
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Adds a place where clients come from: an endpoint of a listener, which the
  // worker uses from now on and which outlives it, and the ranges of the table and
  // of the counters' cells as its clients name them.  The first is port 0, and so
  // on.  `cells` with rkey 0: its clients use messages.
  void AddPort(rdma::Endpoint* endpoint, const rdma::RemoteRange& table, const rdma::RemoteRange& cells = {});

  // Hands a client over.  Any thread.
  void Deliver(Arrival arrival);
  // Connections, and clients delivered and not yet let in.  Any thread.
  int64_t load() const { return load_.load(std::memory_order_relaxed); }

  // Makes progress; returns how many things it did, 0 if there was nothing.
  size_t Poll();

  // Sleeping: if Arm() returns true, call Poll() when an endpoint's fd() is
  // readable, after a wake, or at due_ns() at the latest.  False: Poll() again.
  bool Arm();
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t due_ns() const { return due_ns_; }

  // Begins to shut down: clients that arrive are turned away; requests that have
  // arrived are answered, later ones with kShuttingDown; then, or at
  // `deadline_ns`, connections are closed.  Poll() until drained().
  void BeginDrain(int64_t deadline_ns);
  bool drained() const { return phase_ == Phase::kDisconnecting && links_.empty(); }

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
  enum class Phase : uint8_t { kServing, kFinishing, kRefusing, kDisconnecting };

  // Letting clients in.
  void Admit(Arrival arrival);
  void Open(Arrival arrival, Session* session, bool resumed);
  void Reject(Arrival& arrival, absl::string_view reason);
  kv::Welcome WelcomeFor(const Arrival& arrival, const Session& session, bool resumed) const;

  // Serving them.
  void HandleBatch(absl::Span<const rdma::Completion> batch);
  void Decode(absl::string_view message, Incoming* incoming);
  void Apply(Link& link, const Incoming& incoming);
  void Execute(Link& link, const kv::Request& request, uint64_t hash);
  int64_t TableNowNs() const;
  Outcome Write(const kv::Request& request, uint64_t hash);
  Outcome Get(const kv::Request& request, uint64_t hash, absl::string_view* payload);
  void AnswerFromMemory(Link& link, const kv::Request& request);
  Outcome ExecuteCounter(Link& link, const kv::Request& request, uint64_t hash);
  void Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload = {});
  void Send(Link& link, absl::string_view head, absl::string_view payload);
  void AnswerEndedPulls(Link& link);
  size_t PollCounters();

  // Loose ends: what the send queue did not take.
  void MarkUnfinished(Link& link);
  size_t ContinueUnfinished();
  bool Continue(Link& link);
  void RingAll();

  // Letting them go.
  void Drop(Link& link, absl::string_view reason);
  void Close(Link& link);
  void OnDisconnected(Link& link);
  bool AdvanceDrain(bool idle);
  void UpdateGauges();

  const Shared shared_;
  SessionTable sessions_;
  Mailbox mailbox_;
  std::vector<Port> ports_;
  absl::flat_hash_map<Link*, std::unique_ptr<Link>> links_;
  std::atomic<int64_t> load_{0};
  WorkerStats stats_;
  std::unique_ptr<CounterLinks> counter_links_;  // null without counters

  int64_t now_ns_ = 0;  // read once for each batch
  std::array<rdma::Completion, kBatch> completions_;
  std::array<Incoming, kBatch> incoming_;
  std::array<char, kv::kMaxReplyPayloadBytes> value_;  // of a kGet's reply
  std::string stat_;                                   // of a kStat's
  std::vector<Link*> unrung_;
  std::vector<Link*> unfinished_;

  int64_t due_ns_ = kNever;
  int64_t retry_ns_ = 0;  // the pause before the next look at unfinished_

  Phase phase_ = Phase::kServing;
  int64_t drain_deadline_ns_ = 0;
  int64_t phase_end_ns_ = 0;

  RateLimit drop_log_;
  RateLimit reject_log_;
  RateLimit connection_log_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_H_
