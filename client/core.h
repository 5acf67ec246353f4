// The client without threads and without sleep: handed a transport, a clock and a seed, it makes progress when polled.
// The blocking Client wraps it; a simulator drives it with virtual time.
//
// What happens when a connection is lost (see also link.h):
//   * The server still accepts: the session is resumed. Gets begin anew; requests without an answer are sent again
//     under their old numbers, and the server answers from memory what it had done. No operation fails for it.
//   * The server no longer knows the session: writes that were sent end with UNKNOWN, the others run in a new session.
//   * It is another incarnation: the same, and index mirror and directory are dropped; a write with IfVersion that was
//     not sent yet ends with ABORTED, since its version belongs to a table that is gone. The next error says what
//     happened.
//   * It is the next primary of a group: the session goes on there, as do versions; only the index mirror is dropped.
//   * Nobody of a group accepts: operations wait until their deadlines.
//   * A member of a group shows a later epoch (epoch_watch.h): the connection is given up, as if it were lost.
//   * No server accepts: every operation ends at once, with UNKNOWN if it is a write that was sent, else UNAVAILABLE.
//     So do those started before the next attempt is due.
#ifndef FARLOOK_CLIENT_CORE_H_
#define FARLOOK_CLIENT_CORE_H_

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
#include "client/engines.h"
#include "client/epoch_watch.h"
#include "client/finished.h"
#include "client/last_time.h"
#include "client/latencies.h"
#include "client/link.h"
#include "client/operation.h"
#include "client/slot_owners.h"
#include "client/timeouts.h"
#include "client/told_figures.h"
#include "client/user_memory.h"
#include "farlook/options.h"
#include "farlook/stats.h"
#include "kv/handshake.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread.
class ClientCore {
 public:
  // No deadline yet: see StartUntimed().
  static constexpr int64_t kNoDeadline = Timeouts::kNever;

  ClientCore(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address, const ClientOptions& options,
             const rdma::Clock& clock, uint64_t random_seed);
  ~ClientCore();  // gives up what is in flight; nothing refers to the operations any more
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  // Connects at the next Poll() even though no operation waits. Afterwards ready(), or refused() says why not.
  void Connect() { connect_wanted_ = true; }
  bool ready() const { return link_.ready(); }
  // Why the last attempt to connect failed, or OK.
  const absl::Status& refused() const { return link_.refused(); }
  // Whether it was a server that answered the last attempt.
  bool turned_away() const { return link_.turned_away() || incarnation_ != 0; }
  int64_t last_ns() const { return time_.last_ns(); }
  // What the server said when it let this client in. REQUIRES that it once did.
  const kv::Welcome& welcome() const { return link_.welcome(); }
  // From now on as with ClientOptions::wait_for_server.
  void WaitForServer() { link_.WaitForServer(); }

  // ---- Of a cluster.

  // The group's name, for errors. As of any group it is waited for, where nobody answers. `hash_seed`: of the hashes
  // that operations bear. `owners`, which outlives it, hears which slots it has; it is their core `index`.
  void SetGroup(absl::string_view name, uint64_t hash_seed, SlotOwners* owners, size_t index);
  // The servers of its group, as another group's server says; the primary first.
  void Learn(const std::vector<std::string>& members) { link_.LearnMembers(members); }
  // The group is in a later epoch than welcome() says: connects anew, also where no operation waits. None fails by it.
  void Renew();
  // An attempt to connect that was not made yet is not, unless operations wait.
  void StopConnecting() { connect_wanted_ = false; }
  // Whether there are operations that its group did not do, as it has not their slots. TakeMoved() hands them over, in
  // their order; not between StartUntimed() and SetDeadlines().
  bool has_moved() const { return engines_.has_moved(); }
  // What waits here although another core is the slot's owner by now has moved too. REQUIRES !ready().
  void WithdrawMoved();
  void TakeMoved(absl::FunctionRef<void(Operation*)> take);
  // For the requests that have no answer, or will be sent.
  void ForEachRequest(absl::FunctionRef<void(const Operation&)> each) const { engines_.ForEachRequest(each); }
  // Goes on with an operation that another core handed over, until its deadline; Flush() posts what may be. Nobody lets
  // it wait before what was started there, which is later.
  void Resume(Operation* operation);
  void Flush() { Post(); }

  // A core like this one that has no server, for slots that no group has: operations wait there, until their deadlines.
  std::unique_ptr<ClientCore> MakeNobody() const;
  // Of such: whether any waits; hands those over for which `which` is true, in their order.
  bool holds() const { return engines_.has_moved() || engines_.waiting(); }
  void TakeHeld(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take);

  // See Client.
  void Start(Operation* operation) { Start(absl::MakeSpan(&operation, 1)); }
  void Start(absl::Span<Operation* const> operations);
  size_t Poll(absl::Span<Operation*> done);
  size_t in_flight() const { return finished_.in_flight(); }
  // Whether somebody waits for what Poll() does: the user, or a server that this client greets.
  bool busy() const { return in_flight() > 0 || connect_wanted_ || greets(); }
  // Whether it connects to a backup of its group, to look at its word.
  bool greets() const { return watch_.active() && watch_.connects(); }
  // Whether Poll() has something to return, without progress.
  bool has_ended() const { return !finished_.empty(); }
  bool Arm();
  int fd() const { return endpoint_->fd(); }
  rdma::Heard heard() const { return endpoint_->heard(); }
  int64_t wait_ms();

  // What the user registered.
  UserMemory* user_memory() { return engines_.user_memory(); }

  // For calls that wait at once: without reading the clock. Most gets are done when it returns, of several only those
  // on this host; true: it is, or all of these are. An operation that is not has no deadline until SetDeadlines().
  // `kind`: the operation's, which the compiler knows where the caller does.
  bool StartUntimed(Operation* operation, Kind kind) {
    if (engines_.reads_at_once()) return StartAtOnce(operation, kind);
    if (engines_.at_once() && engines_.EndAtOnce(operation)) [[likely]]
      return true;
    Begin(operation, kNoDeadline);
    StartBegun(operation, kind);
    Post();
    return false;
  }
  bool StartUntimed(absl::Span<Operation* const> operations) {
    if (engines_.at_once()) [[likely]] {
      if (engines_.EndAtOnce(operations) == operations.size()) [[likely]]
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
  // Handles what the transport has to tell, without reading the clock. Poll() does this too, and all else.
  void Progress();
  // The same for calls that found all they wanted: where nothing is in flight, what the transport may have to tell can
  // wait for some more of them.
  void ProgressNowAndThen() {
    if (in_flight() == 0 && ++calls_without_progress_ < kCallsForEachProgress) [[likely]]
      return;
    calls_without_progress_ = 0;
    Progress();
  }
  // Starts them so that they end by `deadline_ns`, which the requests that are sent for them bear.
  void StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns);
  void StartUntil(Operation* operation, int64_t deadline_ns);
  // Of those that have none yet, and have not ended: what each says, or `deadline_ns`.
  void SetDeadline(Operation* operation) {
    if (!operation->done) timeouts_.Begin(operation);
  }
  void SetDeadlines(absl::Span<Operation* const> operations);
  void SetDeadlines(absl::Span<Operation* const> operations, int64_t deadline_ns);
  // When an operation must end that begins now; 0 means the client's timeout.
  int64_t DeadlineFromNow(int64_t timeout_ms) { return timeouts_.At(time_.NowNs(), timeout_ms); }
  int64_t NowNs() { return time_.NowNs(); }

  const ClientStats& stats() const { return stats_; }
  uint64_t incarnation() const { return incarnation_; }
  uint64_t memory_bytes() const;
  // The server is on this host: a READ is done when Progress() returns.
  bool local() const { return local_; }

 private:
  static constexpr uint32_t kCallsForEachProgress = 16;
  static constexpr uint32_t kPollsForEachTick = 16;  // of those that have something to return
  static constexpr int64_t kPauseNs = 10'000'000;
  // Of an attempt to connect to one of several members, which may be stopped; each that is over in vain doubles it.
  static constexpr int64_t kAttemptNs = 250'000'000;
  static constexpr int kMostDoublings = 6;

  void Admit(Operation* operation, int64_t deadline_ns);
  // The two steps of it. Inlined where there is one operation: its kind, or that it has no deadline, is known there.
  [[gnu::always_inline]] void StartBegun(Operation* operation, Kind kind) {
    if (!local_ && IsCounter(kind)) LookAfterPause();
    engines_.Start(operation, kind);
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
  // StartUntimed() where gets may be READ at once.
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
  // Posts what may be posted now, and rings. True if that were READs or atomics, which may be done already.
  bool Post() {
    if (!link_.ready() || engines_.wants_pump()) [[unlikely]]
      return PostAll();
    return RingPosted();
  }
  bool RingPosted() {
    const Posted posted = engines_.TakePosted();
    if (posted.messages || posted.fetches) link_.connection()->Ring();
    return posted.fetches;
  }

  void EnterGroup();
  void TellSlots();
  void KeepOrder();
  void HandOver(Operation* operation, absl::FunctionRef<void(Operation*)> take);
  void Watch();
  void Lose(absl::Status why);
  void FailAttempt(const absl::Status& why);
  void Refuse(const absl::Status& why);
  void Tick(int64_t now_ns);
  void Expire(int64_t now_ns);
  void Attempt(int64_t now_ns);
  bool wanted() const;
  bool connecting() const { return !link_.ready() && link_.state() != Link::State::kDown; }

  const std::unique_ptr<rdma::Endpoint> endpoint_;
  const ClientOptions options_;
  LastTime time_;
  Timeouts timeouts_;
  ClientStats stats_;
  ToldFigures told_;
  Latencies latencies_;
  Finished finished_;
  EpochWatch watch_;
  Link link_;  // its connection is destroyed first of all: see ~ClientCore
  Engines engines_;

  bool connect_wanted_ = false;
  bool local_ = false;
  bool was_connected_ = false;
  bool moved_ = false;      // to another server of the group, which has not said Welcome yet
  bool is_nobody_ = false;  // it never connects
  uint32_t calls_without_progress_ = 0;
  uint32_t polls_until_tick_ = kPollsForEachTick;
  int64_t counted_ns_ = 0;        // when an operation on a counter last began
  int64_t attempt_over_ns_ = 0;   // of a group: then another member is tried
  int slow_attempts_ = 0;         // one after the other
  absl::Status trouble_;          // what last went wrong with a connection
  uint64_t incarnation_ = 0;      // of the server last connected to
  std::string group_;             // of a cluster
  uint64_t group_hash_seed_ = 0;  // likewise
  SlotOwners* owners_ = nullptr;  // likewise
  size_t index_ = 0;              // likewise
  std::array<rdma::Completion, 64> completions_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_H_
