// The client without threads and without sleep. It gets a transport, a clock and a seed, and makes progress when
// polled. The blocking Client wraps it; a simulator drives it with virtual time.
//
// Rules for a lost connection (see also link.h):
//   * The server still accepts: the session is resumed. Gets start again. Requests without a reply are sent again under
//     their old numbers; the server answers those that it has executed from memory. No operation fails.
//   * The server no longer knows the session: writes that were sent end with UNKNOWN, the others run in a new session.
//   * The server has another incarnation: the same, and index mirror and directory are dropped. An unsent write with
//     IfVersion ends with ABORTED, since its version belongs to a lost table. The next error says what happened.
//   * The next primary of a group accepts: session and versions stay valid; only the index mirror is dropped.
//   * No member of a group accepts: operations wait until their deadlines.
//   * A member of a group shows a later epoch (epoch_watch.h): the client closes the connection, as if it were lost.
//   * No server accepts: every operation ends at once, with UNKNOWN if it is a write that was sent, else UNAVAILABLE.
//     Operations that are started before the next attempt is due end in the same way.
#ifndef FARLOOK_CLIENT_CORE_CORE_H_
#define FARLOOK_CLIENT_CORE_CORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/connection/epoch_watch.h"
#include "client/connection/link.h"
#include "client/core/operation_router.h"
#include "client/core/slot_owners.h"
#include "client/memory/user_memory.h"
#include "client/op/client_stats_report.h"
#include "client/op/finished.h"
#include "client/op/last_time.h"
#include "client/op/latencies.h"
#include "client/op/operation.h"
#include "client/op/timeouts.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/wire/handshake.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread.
class ClientCore {
 public:
  // Marks an operation that has no deadline yet: see StartUntimed().
  static constexpr int64_t kNoDeadline = Timeouts::kNever;

  ClientCore(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address, const ClientOptions& options,
             const rdma::Clock& clock, uint64_t random_seed);
  ~ClientCore();  // abandons what is in flight; nothing refers to the operations afterwards
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  // See Endpoint::LeaveToParent(). Afterwards only the destructor may be called; if the result is false, not even that.
  bool LeaveToParent() {
    is_parents_ = true;
    return endpoint_->LeaveToParent();
  }

  // Connects at the next Poll() even if no operation waits. Afterwards ready() is true, or refused() says why not.
  void Connect() { connect_wanted_ = true; }
  bool ready() const { return link_.ready(); }
  // Returns why the last attempt to connect failed, or OK.
  const absl::Status& refused() const { return link_.refused(); }
  // Returns what an attempt to connect waits for, if the transport knows more than that no server has answered. Else
  // OK.
  absl::Status pending() const {
    return link_.connection() == nullptr ? absl::OkStatus() : link_.connection()->status();
  }
  // Returns whether the last attempt reached a server, which answered it.
  bool turned_away() const { return link_.turned_away() || incarnation_ != 0; }
  int64_t last_ns() const { return time_.last_ns(); }
  const ClientOptions& options() const { return options_; }
  const rdma::Clock& clock() const { return time_.clock(); }
  // The server's last Welcome. REQUIRES that there was one.
  const kv::Welcome& welcome() const { return link_.welcome(); }
  // Behaves from now on as with ClientOptions::wait_for_server.
  void WaitForServer() { link_.WaitForServer(); }

  // ---- Clusters.

  // Makes this core one of a cluster. `name`: the group's name, for errors. As with every group, operations wait if no
  // member answers. `hash_seed`: seed of the hashes in operations. `owners` is notified of the slots of this core,
  // whose index there is `index`. It outlives this.
  void SetGroup(absl::string_view name, uint64_t hash_seed, SlotOwners* owners, size_t index);
  // Sets the addresses of its group's servers, which another group reported; the primary comes first.
  void Learn(const std::vector<std::string>& members) { link_.LearnMembers(members); }
  // Reconnects, since the group is in a later epoch than welcome() says, even if no operation waits. No operation
  // fails.
  void Renew();
  // Cancels an attempt to connect that was requested and not begun, unless operations wait.
  void StopConnecting() { connect_wanted_ = false; }
  // Returns whether there are operations that its group refused because it does not have their slots. TakeMoved() hands
  // them over in their order. Do not call it between StartUntimed() and SetDeadlines().
  bool has_moved() const { return router_.has_moved(); }
  // Treats waiting operations as moved if another core owns their slots by now. REQUIRES !ready().
  void WithdrawMoved();
  void TakeMoved(absl::FunctionRef<void(Operation*)> take);
  // Calls `each` for the requests that have no reply yet, or will be sent.
  void ForEachRequest(absl::FunctionRef<void(const Operation&)> each) const { router_.ForEachRequest(each); }
  // Continues an operation that another core handed over, until its deadline; Flush() posts it.
  void Resume(Operation* operation);
  void Flush() { Post(); }

  // See Client for these calls.
  void Start(Operation* operation) { Start(absl::MakeSpan(&operation, 1)); }
  void Start(absl::Span<Operation* const> operations);
  size_t Poll(absl::Span<Operation*> done);
  size_t in_flight() const { return finished_.in_flight(); }
  // Returns whether Poll() is needed: operations are in flight, or this client connects or greets a server.
  bool busy() const { return in_flight() > 0 || connect_wanted_ || greets(); }
  // Returns whether it connects to a backup of its group in order to READ its epoch word.
  bool greets() const { return watch_.active() && watch_.connects(); }
  // Returns whether Poll() would return operations without making progress.
  bool has_ended() const { return !finished_.empty(); }
  bool Arm();
  int fd() const { return endpoint_->fd(); }
  rdma::PeerActivity peer_activity() const { return endpoint_->peer_activity(); }
  int64_t wait_ms();

  // Memory that the user registered.
  UserMemory* user_memory() { return router_.user_memory(); }

  // Starts operations for calls that wait at once, without reading the clock. Returns true if all have ended. Most
  // single gets end here; of several gets only those of a server on this host do. An operation that has not ended has
  // no deadline until SetDeadlines(). `kind` is the operation's; the compiler knows it where the caller does.
  bool StartUntimed(Operation* operation, Kind kind) {
    if (router_.reads_at_once()) return StartAtOnce(operation, kind);
    if (router_.at_once() && router_.EndAtOnce(operation)) [[likely]]
      return true;
    Begin(operation, kNoDeadline);
    StartBegun(operation, kind);
    Post();
    return false;
  }
  bool StartUntimed(absl::Span<Operation* const> operations) {
    if (router_.at_once()) [[likely]] {
      if (router_.EndAtOnce(operations) == operations.size()) [[likely]]
        return true;
      for (Operation* operation : operations) {
        if (!operation->done) Admit(operation, kNoDeadline);
      }
    } else {
      for (Operation* operation : operations) Admit(operation, kNoDeadline);
    }
    Post();
    return false;
  }
  // Handles the transport's completions without reading the clock. Poll() does this and everything else.
  void Progress();
  // The same for calls that already have their results. If nothing is in flight, completions wait for
  // kCallsForEachProgress calls.
  void ProgressNowAndThen() {
    if (in_flight() == 0 && ++calls_without_progress_ < kCallsForEachProgress) [[likely]]
      return;
    calls_without_progress_ = 0;
    Progress();
  }
  // Starts operations that end by `deadline_ns`, which their requests carry.
  void StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns);
  void StartUntil(Operation* operation, int64_t deadline_ns);
  // Set deadlines for operations that have none yet and have not ended: from the operation's timeout, or `deadline_ns`.
  void SetDeadline(Operation* operation) {
    if (!operation->done) timeouts_.Begin(operation);
  }
  void SetDeadlines(absl::Span<Operation* const> operations);
  void SetDeadlines(absl::Span<Operation* const> operations, int64_t deadline_ns);
  // Ends operations in flight for which `which` is true, as if they had expired.
  void GiveUp(absl::FunctionRef<bool(const Operation*)> which);
  // Returns the deadline of an operation that begins now; a timeout of 0 means the client's.
  int64_t DeadlineFromNow(int64_t timeout_ms) { return timeouts_.At(time_.NowNs(), timeout_ms); }
  int64_t NowNs() { return time_.NowNs(); }

  const ClientStats& stats() const { return stats_; }
  uint64_t incarnation() const { return incarnation_; }
  uint64_t memory_bytes() const;
  // Returns whether the server is on this host: a READ is complete when Progress() returns.
  bool local() const { return local_; }

 private:
  static constexpr uint32_t kCallsForEachProgress = 16;
  static constexpr uint32_t kPollsForEachTick = 16;  // of polls that return operations
  static constexpr int64_t kPauseNs = 10'000'000;
  // Time for attempts to connect to several members, of which each next one begins a little later, before all of them
  // are given up. Each such failure doubles it.
  static constexpr int64_t kAttemptNs = 250'000'000;
  static constexpr int kMostDoublings = 6;

  void Admit(Operation* operation, int64_t deadline_ns);
  // The two steps of Admit(). Inlined into the start of one operation, where its kind or the absent deadline is known.
  [[gnu::always_inline]] void StartBegun(Operation* operation, Kind kind) {
    if (!local_ && IsCounter(kind)) LookAfterPause();
    router_.Start(operation, kind);
  }
  [[gnu::always_inline]] void Begin(Operation* operation, int64_t deadline_ns) {
    BeginUntimed(operation, deadline_ns);
    if (latencies_.Due()) [[unlikely]]
      operation->timing = latencies_.Begin();
  }
  [[gnu::always_inline]] void BeginUntimed(Operation* operation, int64_t deadline_ns) {
    finished_.Begun(operation);
    operation->version = 0;
    operation->touched = operation->after_moved = false;
    timeouts_.Set(operation, deadline_ns);
  }
  // StartUntimed() if gets may be READ at once.
  bool StartAtOnce(Operation* operation, Kind kind) {
    if (latencies_.Due()) [[unlikely]]
      return StartAtOnceTimed(operation, kind);
    return StartAtOnceAs(operation, kind, OperationTiming());
  }
  bool StartAtOnceTimed(Operation* operation, Kind kind);
  bool StartAtOnceAs(Operation* operation, Kind kind, OperationTiming timing);
  void LookAfterPause();
  bool Handle();
  bool HandleApart();
  void ProgressHere();
  void ProgressOn();
  void HandleLast(absl::Span<const rdma::Completion> completions);
  void Dispatch(const rdma::Completion& completion);
  void OnConnected();
  void OnNewIncarnation();
  void OnDirectoryRead();
  void OnFirstMessage(absl::string_view message);
  void OnMessage(absl::string_view message);
  void OnEarlyMessage(absl::string_view message);
  void BeginReady();
  bool PostAll();
  // Posts what may be posted now, and rings. Returns true if READs or atomics were posted, which may be complete
  // already.
  bool Post() {
    if (!link_.ready() || router_.wants_pump()) [[unlikely]]
      return PostAll();
    return RingPosted();
  }
  bool RingPosted() {
    const Posted posted = router_.TakePosted();
    if (posted.messages || posted.fetches) link_.connection()->Ring();
    return posted.fetches;
  }

  void EnterGroup();
  void UpdateSlotOwners();
  void KeepOrder();
  void Watch();
  void Lose(absl::Status why);
  void FailAttempt(const absl::Status& why);
  void Refuse(const absl::Status& why);
  void Tick(int64_t now_ns);
  void Expire(int64_t now_ns);
  void EndOverdue(DeadlineList* over);
  void Attempt(int64_t now_ns);
  void LimitAttempt(int64_t now_ns);
  void GoOnConnecting(int64_t now_ns);
  bool wanted() const;
  bool connecting() const { return !link_.ready() && link_.state() != Link::State::kDown; }

  const std::unique_ptr<rdma::Endpoint> endpoint_;
  const ClientOptions options_;
  LastTime time_;
  Timeouts timeouts_;
  ClientStats stats_;
  ClientStatsReport stats_report_;
  Latencies latencies_;
  Finished finished_;
  EpochWatch watch_;
  Link link_;  // its connection is destroyed first: see ~ClientCore
  OperationRouter router_;

  bool connect_wanted_ = false;
  bool local_ = false;
  bool was_connected_ = false;
  bool moved_ = false;  // to another server of the group, whose Welcome is still missing
  bool is_parents_ = false;
  uint32_t calls_without_progress_ = 0;
  uint32_t polls_until_tick_ = kPollsForEachTick;
  int64_t counted_ns_ = 0;        // when an operation on a counter last began
  int64_t attempt_over_ns_ = 0;   // groups: then another member is tried
  int slow_attempts_ = 0;         // consecutive ones
  absl::Status trouble_;          // last error of a connection
  uint64_t incarnation_ = 0;      // of the server last connected to
  uint64_t history_ = 0;          // of its group's table; 0: it has none
  std::string group_;             // clusters only
  uint64_t group_hash_seed_ = 0;  // clusters only
  SlotOwners* owners_ = nullptr;  // clusters only
  size_t index_ = 0;              // clusters only
  std::array<rdma::Completion, 64> completions_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_CORE_H_
