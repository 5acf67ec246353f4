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
//   * each request that is claimed (of a message that stands for several, each of them) is answered, or released when its connection breaks before it is executed;
//   * writes of a session to one key take effect in the order in which they arrive, small and pulled ones alike;
//   * where there are users, a connection without one that the kernel vouches for is told nothing and may READ nothing
//     before it has proved who it is, in the time that it has for its Hello;
//   * a client that breaks the protocol, or does not say who it is in time, loses its connection, and no other does;
//   * between two looks at what its clients send a worker does a bounded amount for any of them: one arrival, one turn
//     of one connection's pulled values, one step towards room, kLooks looks at full send queues; and clients that come
//     and go get a share of its time (time_share.h) while others have requests;
//   * while more than Shared::max_kept_bytes are kept for a connection it is not listened to. What one Poll() brings is
//     the most that is kept beyond that;
//   * on the path of a request that is all right: no allocation, no system call of ours, no log line; one reading of the
//     clock for each batch. (Behind the answers a system call in 100 us: see lock_times.h.)
#ifndef FARLOOK_SERVER_WORKER_H_
#define FARLOOK_SERVER_WORKER_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/gets.h"
#include "kv/handshake.h"
#include "kv/key_place.h"
#include "kv/message.h"
#include "kv/puts.h"
#include "rdma/transport.h"
#include "server/admission.h"
#include "server/client_figures.h"
#include "server/commit_gate.h"
#include "server/counter_links.h"
#include "server/drain.h"
#include "server/executor.h"
#include "server/feed.h"
#include "server/link.h"
#include "server/log.h"
#include "server/mailbox.h"
#include "server/outcomes.h"
#include "server/request_times.h"
#include "server/room_turns.h"
#include "server/session.h"
#include "server/shared.h"
#include "server/sweep.h"
#include "server/tidy.h"
#include "server/time_share.h"
#include "server/touches.h"
#include "server/worker_stats.h"

namespace farlook::server {

class Worker {
 public:
  // Looks of one Poll() whether a send queue that was full has room.
  static constexpr size_t kLooks = 8;
  // For so long after a request that is no long value turns of values are short.
  static constexpr int64_t kOthersNs = 1'000'000;

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

  // Of a primary that was a backup: as of SessionTable. REQUIRES that no client came yet.
  void Restore(uint64_t incarnation, const Outcomes& outcomes) {
    admission_.Restore(incarnation, outcomes, shared_.clock->NowNs());
    sweep_.Noted();  // of what the backup was told something may expire
  }

  // Items that expire came otherwise than by requests. On the worker's thread.
  void NoteExpiry() { sweep_.Noted(); }

  // Of a group's primary: appends what its sessions' clients may ask again, for a joiner that follows the stream from
  // the record after `from` on. False: call again when the gate's turn() has changed.
  bool TellOutcomes(uint64_t from, OutcomesToTell* rest);

  // Of a group: has `task` called on the worker's thread, in Poll(), again whenever it was woken, until it says true.
  // Any thread.
  void Do(std::function<bool()> task);

  // Hands a client over. Any thread.
  void Deliver(Arrival arrival);
  // Connections, and clients delivered and not yet let in. Any thread.
  int64_t load() const { return load_.load(std::memory_order_relaxed); }

  // Makes progress; returns how many things it did, 0 if there was nothing.
  size_t Poll();

  // Sleeping: if Arm() returns true, call Poll() when an endpoint's fd() is readable, after a wake, or at due_ns() at
  // the latest. False: Poll() again.
  bool Arm();
  // Clients delivered and not looked at. Any thread.
  size_t waiting() const { return mailbox_.size(); }
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t due_ns() const { return due_ns_; }

  // Whether one that joins is sent copies.
  bool fills() const;
  // Begins to shut down: clients that arrive are turned away; requests that have arrived are answered, later ones with
  // kShuttingDown; then, or at `deadline_ns`, connections are closed. Poll() until drained().
  void BeginDrain(int64_t deadline_ns) { drain_.Begin(shared_.clock->NowNs(), deadline_ns); }
  bool drained() const { return drain_.disconnects() && links_.empty(); }
  // Turns those away who were delivered and not looked at. REQUIRES drained(), and that nobody calls Poll() any more.
  void TurnAwayTheRest();

  const WorkerStats& stats() const { return stats_; }
  // Connections that have yet to prove who they are, and count as such.
  int64_t unproven() const { return unproven_; }

 private:
  static constexpr size_t kBatch = 64;

  struct Port {
    rdma::Endpoint* endpoint;
    rdma::RemoteRange table;
    rdma::RemoteRange cells;
  };
  // A message of the batch in hand.
  struct Incoming {
    bool is_plain = false;  // it is `plain`; else `status` and `request` say what it is
    bool has_key = false;
    kv::PlainPut plain;
    kv::KeyPlace place;   // the key's
    absl::Status status;  // not OK: it is no request
    kv::Request request;
  };

  // Letting clients in.
  size_t AdmitInTurn();
  void Admit(Arrival arrival);
  void Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason);
  absl::StatusOr<Visitor> Identify(const rdma::ConnectionRequest& request) const;
  void NoRoomFor(Arrival& arrival, const absl::Status& status);
  void Greet(Link& link, absl::string_view message);
  void WelcomeWatcher(Link& link);
  bool GrantTable(Link& link, kv::Welcome* welcome);
  void Challenge(Link& link, absl::string_view hello);
  void CheckProof(Link& link, absl::string_view message);
  void Consider(Link& link);
  void WaitForPredecessor(Link& link, Link& old);
  void Welcome(Link& link, Session* session, bool resumed);
  void Refuse(Link& link, kv::Refusal refusal);
  void ExpectSoon(Link& link);
  size_t CloseSilent(int64_t looked_ns);
  size_t DropRevoked();
  bool IsOperator(const kv::ConnectData& connect, const Visitor& who) const;
  void LeavePlace(bool operates);
  bool Returns(uint64_t session);
  bool HasRoomForUnproven();
  void LeaveUnproven(Link& link);
  size_t DropKicked();
  Outcome Kick(const Link& link, uint64_t id, absl::string_view* payload);

  // Serving them.
  void HandleBatch(absl::Span<const rdma::Completion> batch);
  void Decode(absl::string_view message, Incoming* incoming);
  void Apply(Link& link, absl::string_view message, Incoming& incoming);
  bool PutPlainly(Link& link, absl::string_view message, const Incoming& incoming);
  void ApplyRequest(Link& link, absl::string_view message, const Incoming& incoming);
  void DropAfterGoodbye(Link& link);
  // An empty `message`: it is one of several of a message. REQUIRES that the session has not said goodbye.
  void ApplyNumbered(Link& link, const kv::Request& request, const kv::KeyPlace& place, absl::string_view message);
  void ApplyGets(Link& link, const kv::Request& gets);
  void ApplyPuts(Link& link, const kv::Request& puts);
  template <kv::RequestType kType, typename KeyOf, typename Together, typename Fill>
  void ApplyEach(Link& link, const kv::Request& several, size_t count, KeyOf key_of, Together together, Fill fill);
  size_t PutTogether(Link& link, const kv::Request& put, size_t first);
  Executor::Asker AskerOf(const Link& link) const { return {link.session->read_only(), drain_.refuses_writes()}; }
  // Whether writes of the session wait, behind which others to the same keys do.
  static bool HasWaiting(const Link& link) { return !link.pulls->idle() || !link.room.empty() || !link.held.empty(); }
  // The message of a request that must wait.
  static std::string Kept(const kv::Request& request, absl::string_view message);
  void PackAnew(Link& link, const kv::Reply& reply);
  void ApplyUnnumbered(Link& link, const kv::Request& request);
  void TakeTouches(Link& link, const kv::Request& request);
  void TakeFigures(Link& link, const kv::Request& request);
  bool Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message);
  bool Wait(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message, kv::Code why);
  void WaitForRoom(Link& link, uint64_t hash, absl::string_view message);
  Outcome Administer(const Link& link, const kv::Request& request, absl::string_view* payload);
  Outcome Try(Link& link, const kv::Request& request, const kv::KeyPlace& place, bool may_step,
              absl::string_view* payload);
  // The same, and those that use them, inline where most requests come through (worker_apply.h).
  void ApplyNumberedHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                         absl::string_view message);
  void ExecuteInOrder(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                      absl::string_view message);
  bool ExecuteHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                   absl::string_view message);
  Outcome TryHere(kv::RequestType type, Link& link, const kv::Request& request, const kv::KeyPlace& place,
                  bool may_step, absl::string_view* payload);
  void AnswerHere(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload);
  void AnswerKnown(Link& link, const kv::Request& request, uint64_t hash, Session::Claim claim);
  void EndTimed(const Link& link, OpenRequests::Request* request);
  void Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload = {});
  // In order with all that was sent before.
  [[gnu::always_inline]] void Send(Link& link, absl::string_view head, absl::string_view payload) {
    if (link.closing) return;
    // Of a message that came alone nothing follows, but where its replies fill several packs.
    const bool rings = came_alone_ && packing_ == nullptr;
    if (!link.replies.Post(head, payload, rings)) [[unlikely]]
      return SendLater(link, head, payload);
    if (!rings) WantRing(link);
  }
  void SendLater(Link& link, absl::string_view head, absl::string_view payload);
  void AnswerEndedPulls(Link& link);
  void ContinueHeld(Link& link);
  size_t MakeRoom();
  void TakeRoomTurn(Link& link);
  size_t PollCounters(int64_t looked_ns);

  // Of a group's primary (worker_group.cc): what waits until all members accepted it.
  Outcome TryInGroup(Link& link, const kv::Request& request, uint64_t hash, bool may_step, absl::string_view* payload);
  bool IsOfAnotherGroup(const kv::Request& request, uint64_t hash) const;
  static bool ComesAfterMoved(const Link& link, const kv::Request& request, uint64_t hash);
  static Outcome Moved(Link& link, kv::RequestType type, uint64_t hash);
  void TakeFlags(Link& link, const kv::Request& request, uint64_t hash);
  CommitGate::Begun BeginInGroup(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                                 absl::string_view* payload);
  void AwaitCommit(Link& link, uint64_t number, uint64_t hash, const CommitGate::Begun& begun,
                   absl::string_view payload);
  size_t PollGroup();
  bool ArmInGroup();
  size_t RunTasks();
  bool HasTasks();
  bool AnswerCommitted();
  void WaitForGroup(Link& link);
  void AskedAgain(Link& link, uint64_t number);
  void ForgetInGroup(Link& link);
  void TakeOther(Link& link, absl::string_view message, const absl::Status& status);
  absl::StatusOr<FeedId> AdmitBackup(const Link& link, const absl::StatusOr<kv::Follow>& follow);
  bool AnswerFollow(Link& link);
  bool takes_writes() const { return shared_.serving == nullptr || shared_.serving->takes_writes(); }
  void AnswerWrite(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload);
  void AnswerWithheld();
  void LookAtClock() {
    now_ns_ = shared_.clock->NowNs();
    now_us_ = shared_.time.At(now_ns_);
  }
  void BeginFeed(Link& link, absl::string_view message);
  void TakeAccepted(Link& link, absl::string_view message);
  absl::StatusOr<std::optional<cluster::OutgoingBatch>> NextBatch(Feed* feed);
  size_t PumpFeeds();

  // Loose ends: values to pull, and what the send queue did not take.
  void WantPullTurn(Link& link);
  size_t TakePullTurn();
  void MarkStuck(Link& link);
  size_t ContinueStuck();
  bool Look(Link& link);
  void Balance(Link& link);
  bool Unfinished() const;
  void WantRing(Link& link) {
    if (link.unrung) return;
    link.unrung = true;
    unrung_.push_back(&link);
  }
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
  const int number_;
  Admission admission_;
  WorkerStats stats_;  // before those that note in it
  Executor executor_;
  Drain drain_;
  Sweep sweep_;
  Tidy tidy_;
  Touches touches_;
  ClientFigures figures_;
  RequestTimes times_;
  Mailbox mailbox_;
  std::vector<Port> ports_;
  absl::flat_hash_map<Link*, std::unique_ptr<Link>> links_;
  std::atomic<int64_t> load_{0};
  std::unique_ptr<CounterLinks> counter_links_;  // null without counters

  // A request that waits for the group.
  struct Committing {
    CommitGate::Begun begun;
    uint64_t hash;
    uint64_t session, number;
    Link* link;  // that asked; null: it is gone, and the client has not asked again
    std::string payload;
  };
  std::deque<Committing> committing_;  // by sequence
  // The answer to a write, while too few members are in sync.
  struct Withheld {
    Link* link;
    uint64_t number;
    Outcome outcome;
    std::string payload;
  };
  std::vector<Withheld> withheld_;
  std::vector<Link*> group_waiters_;  // whose held requests found a key busy, or the stream full
  Sleeper* sleeper_ = nullptr;        // of its group
  uint64_t group_turn_ = 0;           // as it was seen last
  uint64_t records_seen_ = 0;         // likewise, before what there was to send was sent
  std::vector<Link*> feeds_;          // of backups

  const std::function<void()> wake_;
  absl::Mutex tasks_mutex_;
  std::vector<std::function<bool()>> tasks_ ABSL_GUARDED_BY(tasks_mutex_);

  uint64_t users_seen_ = 0;  // the generation of shared_.users
  uint64_t kicks_seen_ = 0;  // of shared_.roster
  std::string page_;         // of a kAdmin's reply

  int64_t now_ns_ = 0;   // read once for each batch
  uint64_t now_us_ = 0;  // the same, of the server's clock
  std::array<rdma::Completion, kBatch> completions_;
  std::array<Incoming, kBatch> incoming_;
  // Of the message in hand that stands for several requests; here, since at each call all of it would be made anew.
  kv::GetKeys gets_;
  kv::Puts puts_;
  std::array<kv::KeyPlace, std::max(kv::kMaxGets, kv::kMaxPuts)> places_;
  std::array<Outcome, kv::kMaxPuts> outcomes_;
  Link* packing_ = nullptr;  // whose replies go into pack_ now
  kv::ReplyPack pack_;
  bool came_alone_ = false;  // the completion in hand: no others wait for their turn
  std::vector<Link*> unrung_;
  std::deque<Link*> pull_turns_;    // of those with pulls that wait for nothing but their turn
  int64_t others_ns_ = -kOthersNs;  // when a request came last that is no long value
  uint64_t turn_bytes_ = 0;         // of values that were handled since messages were looked at
  std::vector<Link*> stuck_;        // whose send queue was full
  size_t next_look_ = 0;            // index in it
  size_t looks_due_ = 0;            // after a sleep one at each: room may have ended it
  RoomTurns<Link> room_turns_;      // of those with writes that wait for room
  std::vector<Link*> silent_;       // that have said no Hello, or were refused: each has a due_ns
  int64_t unproven_ = 0;            // connections with Link::counts_as_unproven: at most Shared::max_unproven()

  TimeShare comings_;           // of letting clients in, greeting them, and clearing up after them
  bool arrivals_rest_ = false;  // there are some, and due_ns_ is not later than their turn

  int64_t due_ns_ = kNever;
  int64_t retry_ns_ = 0;            // the pause before the next look at stuck_, if the worker sleeps
  int64_t silent_due_ns_ = kNever;  // when the first of silent_ has had its time, or before

  RateLimit drop_log_;
  RateLimit slow_log_;
  RateLimit reject_log_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_H_
