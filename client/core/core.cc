#include "client/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "kv/read/directory.h"
#include "kv/wire/handshake.h"

namespace farlook::client {
namespace {

// Maximum number of rounds of one Progress(), even if there is always more to do.
constexpr int kMaxRounds = 64;
constexpr int kQuietLooks = 3;

}  // namespace

ClientCore::ClientCore(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address,
                       const ClientOptions& options, const rdma::Clock& clock, uint64_t random_seed)
    : endpoint_(std::move(endpoint)),
      options_(options),
      time_(clock),
      timeouts_(&time_, options.timeout_ms),
      stats_report_(&stats_),
      latencies_(&time_, &stats_, &stats_report_),
      finished_(&latencies_),
      watch_(endpoint_.get(), &time_, &options_),
      link_(endpoint_.get(), address, options, &time_, random_seed),
      router_({endpoint_.get(), link_.directory(), &time_, &timeouts_, &finished_, &latencies_, &stats_}, options) {}

ClientCore::~ClientCore() {
  if (link_.ready() && !is_parents_) {
    stats_report_.Send(time_.NowNs());
    router_.SendGoodbye();
  }
  link_.Lost(time_.last_ns());  // before the memory that its work requests name
  watch_.Lost();
}

// ---- Starting operations.

void ClientCore::Start(absl::Span<Operation* const> operations) {
  // Unlike StartUntimed(), gets do not end here: Poll() is to return them.
  const int64_t now_ns = time_.NowNs();
  for (Operation* operation : operations) Admit(operation, timeouts_.At(now_ns, operation->timeout_ms));
  Post();
}

void ClientCore::StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  if (operations.size() == 1) return StartUntil(operations[0], deadline_ns);
  for (Operation* operation : operations) Admit(operation, deadline_ns);
  Post();
}

// A put need not wait for others that could share a message with it.
void ClientCore::StartUntil(Operation* operation, int64_t deadline_ns) {
  Begin(operation, deadline_ns);
  if (router_.StartPut(operation)) [[likely]]
    return;
  StartBegun(operation, operation->kind);
  Post();
}

bool ClientCore::StartAtOnceAs(Operation* operation, Kind kind, OperationTiming timing) {
  const bool ended = router_.StartAtOnce(operation, kind, [this, operation, timing] {
    BeginUntimed(operation, kNoDeadline);
    operation->timing = timing;
  });
  if (ended) [[likely]] {
    link_.Proven();
    return true;
  }
  Post();
  return false;
}

ABSL_ATTRIBUTE_NOINLINE bool ClientCore::StartAtOnceTimed(Operation* operation, Kind kind) {
  const OperationTiming timing = latencies_.Begin();
  const bool ended = StartAtOnceAs(operation, kind, timing);
  if (ended) latencies_.End(timing, &stats_.get_times);
  return ended;
}

void ClientCore::SetDeadlines(absl::Span<Operation* const> operations) {
  for (Operation* operation : operations) SetDeadline(operation);
}

void ClientCore::SetDeadlines(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  for (Operation* operation : operations) {
    if (!operation->done && operation->deadline_ns == kNoDeadline) timeouts_.Set(operation, deadline_ns);
  }
}

void ClientCore::Admit(Operation* operation, int64_t deadline_ns) {
  Begin(operation, deadline_ns);
  StartBegun(operation, operation->kind);
}

// If the connection broke while the client was idle, it is unknown whether an atomic posted now is executed. On this
// host the post fails; elsewhere it is sent, so the client looks first whether the connection has ended.
void ClientCore::LookAfterPause() {
  const int64_t now_ns = time_.NowNs();
  if (now_ns - std::exchange(counted_ns_, now_ns) < kPauseNs || !link_.ready()) return;
  // An endpoint looks beyond the completion queue if it was armed and no completion woke it. Wake-ups of earlier
  // completions may still be pending.
  for (int round = 0, quiet = 0; round < kMaxRounds && quiet < kQuietLooks; ++round) {
    const bool asleep = endpoint_->Arm();
    quiet = !HandleApart() && asleep ? quiet + 1 : 0;
  }
}

bool ClientCore::PostAll() {
  if (!link_.ready()) {
    if (link_.state() == Link::State::kGreeting || link_.state() == Link::State::kLoading) link_.Pump();
    return false;
  }
  if (watch_.active()) [[unlikely]]
    watch_.Poll(/*waiting=*/in_flight() > 0);
  router_.Pump();
  return RingPosted();
}

// ---- Completions.

void ClientCore::Progress() { ProgressHere(); }

// Most calls that find something need one round; code for further rounds is in a separate function.
[[gnu::always_inline]] inline void ClientCore::ProgressHere() {
  if (Handle() && Post()) [[unlikely]]
    ProgressOn();
}

ABSL_ATTRIBUTE_NOINLINE void ClientCore::ProgressOn() {
  for (int round = 1; round < kMaxRounds; ++round) {
    if (!HandleApart() || !Post()) return;
  }
}

ABSL_ATTRIBUTE_NOINLINE bool ClientCore::HandleApart() { return Handle(); }

[[gnu::always_inline]] inline void ClientCore::OnMessage(absl::string_view message) {
  if (!link_.ready()) [[unlikely]]
    return OnEarlyMessage(message);
  if (absl::Status status = router_.Received(message); !status.ok()) [[unlikely]]
    return Lose(std::move(status));
  link_.Proven();
}

void ClientCore::OnEarlyMessage(absl::string_view message) {
  if (link_.state() == Link::State::kGreeting) return OnFirstMessage(message);
  Lose(absl::InvalidArgumentError("a message before the first request"));
}

// One look at the transport. Returns false if nothing happened. Inlined, like everything between a message and its
// engine: each call on this path would cost every operation a dozen instructions.
[[gnu::always_inline]] inline bool ClientCore::Handle() {
  const size_t count = endpoint_->Poll(absl::MakeSpan(completions_));
  if (count == 0) return false;
  if (watch_.active()) [[unlikely]]
    time_.NowNs();  // all completions here happened before this time
  const rdma::Completion* const end = completions_.data() + count;
  bool is_alive = false;  // the server lived when these completions happened
  const rdma::Completion* next = completions_.data();
  do {
    const rdma::Completion& completion = *next;
    if (completion.connection != link_.connection() && !link_.TakeUp(completion.connection)) [[unlikely]] {
      watch_.Handle(completion);
      continue;
    }
    if (completion.opcode == rdma::Opcode::kReceive) {
      OnMessage(absl::string_view(completion.message.data(), completion.message.size()));
      continue;
    }
    // Messages were sent while the server lived. For its memory, only this check shows that the server is gone.
    if (!is_alive && link_.ready() && !link_.connection()->alive()) [[unlikely]] {
      HandleLast(absl::MakeConstSpan(next, end));
      return true;
    }
    is_alive = true;
    if (completion.opcode == rdma::Opcode::kRead && completion.status == rdma::WcStatus::kSuccess &&
        WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kReads) [[likely]] {
      link_.Proven();
      router_.ReadCompleted(completion.wr_id);
    } else {
      Dispatch(completion);
    }
  } while (++next != end);
  if (watch_.active() && watch_.TakeProven()) [[unlikely]]
    router_.JudgeAgain();
  return true;
}

// The server is gone. Its memory can still be read on this host, but is no longer valid. Messages that it sent are.
void ClientCore::HandleLast(absl::Span<const rdma::Completion> completions) {
  for (int round = 0; !completions.empty() && round < kMaxRounds; ++round) {
    for (const rdma::Completion& completion : completions) {
      if (completion.connection != link_.connection() || completion.opcode == rdma::Opcode::kRead ||
          completion.opcode == rdma::Opcode::kFetchAdd || completion.opcode == rdma::Opcode::kCompareSwap) {
        continue;
      }
      Dispatch(completion);
    }
    completions = absl::MakeConstSpan(completions_.data(), endpoint_->Poll(absl::MakeSpan(completions_)));
  }
  if (link_.ready()) Lose(absl::UnavailableError("the server process is gone"));
}

void ClientCore::Dispatch(const rdma::Completion& completion) {
  switch (completion.opcode) {
    case rdma::Opcode::kRead:
    case rdma::Opcode::kFetchAdd:
    case rdma::Opcode::kCompareSwap:
      if (completion.status != rdma::WcStatus::kSuccess) [[unlikely]] {
        if (completion.status == rdma::WcStatus::kFlushed) return;  // kDisconnected follows, with the reason
        Lose(absl::UnavailableError(
            absl::StrCat("a READ or atomic failed with work completion status ", static_cast<int>(completion.status))));
        return;
      }
      if (WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kDirectory) return OnDirectoryRead();
      if (WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kWords) return watch_.Handle(completion);
      link_.Proven();
      router_.FetchCompleted(completion.wr_id);
      return;
    case rdma::Opcode::kReceive:
      OnMessage(absl::string_view(completion.message.data(), completion.message.size()));
      return;
    case rdma::Opcode::kConnected:
      OnConnected();
      return;
    case rdma::Opcode::kDisconnected:
      Lose(link_.connection()->status());
      return;
  }
}

void ClientCore::OnConnected() {
  if (absl::Status status = link_.OnConnected(); !status.ok()) return FailAttempt(status);
  if (std::exchange(was_connected_, true)) ++stats_.reconnects;
  local_ = link_.connection()->capabilities().local;
  if (link_.incarnation() != incarnation_) {
    if (incarnation_ != 0 && (link_.in_group() || moved_)) {
      moved_ = true;  // the Welcome says whether the session continues there
    } else if (incarnation_ != 0) {
      OnNewIncarnation();
    }
    incarnation_ = link_.incarnation();
  }
  if (absl::Status status = link_.Greet(router_.MakeHello(), time_.last_ns()); !status.ok()) {
    FailAttempt(status);
  }
}

void ClientCore::OnNewIncarnation() {
  static constexpr absl::string_view kNews =
      "another server process answers at the address (the incarnation changed): its table began empty";
  ++stats_.incarnation_changes;
  finished_.Announce(kNews);
  router_.ForgetServer(kNews);
}

void ClientCore::OnDirectoryRead() {
  const bool was_ready = link_.ready();
  auto done = link_.OnDirectoryRead();
  if (!done.ok()) return was_ready ? Lose(done.status()) : FailAttempt(done.status());
  if (was_ready) return *done ? router_.DirectoryRefreshed() : router_.Attend();
  if (link_.ready()) BeginReady();
}

void ClientCore::OnFirstMessage(absl::string_view message) {
  if (absl::Status status = link_.OnFirstMessage(message, time_.NowNs()); !status.ok()) {
    return FailAttempt(status);
  }
  if (link_.ready()) BeginReady();
}

void ClientCore::BeginReady() {
  connect_wanted_ = false;
  const bool resumed = (link_.welcome().flags & kv::Welcome::kResumed) != 0;
  // The table of a group continues at its next primary, also for a client whose session is not known there.
  const bool continues = link_.welcome().history != 0 && link_.welcome().history == history_;
  history_ = link_.welcome().history;
  if (std::exchange(moved_, false) && !continues) {
    if (!resumed) OnNewIncarnation();
  } else if (!resumed) {
    router_.EndSession("the server no longer knows this client's session");
  }
  kv::Directory* const directory = link_.directory()->directory();
  const kv::ReaderContext context = {link_.hasher(), directory, directory->header().region_bytes, router_.clock()};
  slow_attempts_ = 0;
  watch_.Begin(link_.connection(), link_.table(), link_.welcome(), link_.members());
  router_.clock()->SetInGroup(watch_.active());
  const Ready ready = {link_.connection(),
                       link_.table(),
                       context,
                       link_.incarnation(),
                       &link_.welcome(),
                       link_.hello_ns(),
                       link_.welcome_ns(),
                       watch_.active() ? &watch_ : nullptr};
  if (!group_.empty()) EnterGroup();
  if (owners_ != nullptr) UpdateSlotOwners();
  router_.Connect(ready);
  if (owners_ != nullptr) KeepOrder();
  stats_report_.Connect(link_.connection(), link_.welcome().figures_ms, time_.last_ns());
  Post();
}

// ---- Connections.

void ClientCore::Lose(absl::Status why) {
  if (link_.state() == Link::State::kDialling) return FailAttempt(link_.Explain(why));
  trouble_ = std::move(why);
  link_.Lost(time_.NowNs());  // destroys the connection; only then the memory of its READs is free
  watch_.Lost();
  router_.Lost();
  stats_report_.Lost();
}

void ClientCore::FailAttempt(const absl::Status& why) {
  trouble_ = why;
  const int64_t now_ns = time_.NowNs();
  if (link_.FailedBeside(why, now_ns)) return;
  link_.Failed(why, now_ns);
  watch_.Lost();
  router_.Lost();
  stats_report_.Lost();
  const bool waits = link_.refused().ok();
  if (!waits || !link_.in_group()) router_.EndSession(why.message());
  if (waits) return;
  connect_wanted_ = false;
  Refuse(link_.refused());
}

// Operations do not wait for a server that is not there. A device that is gone (FAILED_PRECONDITION of this host) may
// come back, and the server with it: UNAVAILABLE. A server's own refusal is final and keeps its code.
void ClientCore::Refuse(const absl::Status& why) {
  const bool said_as_it_is = absl::IsPermissionDenied(why) || absl::IsUnauthenticated(why) ||
                             absl::IsResourceExhausted(why) ||
                             ((absl::IsFailedPrecondition(why) || absl::IsDataLoss(why)) && link_.turned_away());
  const absl::StatusCode code = said_as_it_is ? why.code() : absl::StatusCode::kUnavailable;
  const auto end = [this, &why, code](Operation* operation) {
    finished_.End(operation, absl::Status(code, why.message()));
  };
  router_.Withdraw([](const Operation&) { return true; }, end);
}

void ClientCore::Attempt(int64_t now_ns) {
  if (now_ns < link_.due_ns()) {
    if (!link_.refused().ok()) Refuse(link_.refused());
    return;
  }
  LimitAttempt(now_ns);
  if (absl::Status status = link_.Dial(router_.session_id(), now_ns); !status.ok()) FailAttempt(status);
}

void ClientCore::LimitAttempt(int64_t now_ns) {
  attempt_over_ns_ = now_ns + (kAttemptNs << std::min(slow_attempts_, kMostDoublings));
}

// Groups: tries the next address beside those that do not answer. Those tried earlier have the time of the last.
void ClientCore::GoOnConnecting(int64_t now_ns) {
  if (now_ns >= attempt_over_ns_) {
    ++slow_attempts_;
    link_.StopBeside();
    return FailAttempt(absl::DeadlineExceededError("a member of the group accepts no connections"));
  }
  if (now_ns >= link_.beside_due_ns() && link_.DialBeside(now_ns)) LimitAttempt(now_ns);
}

// ---- Time.

[[gnu::always_inline]] inline void ClientCore::Tick(int64_t now_ns) {
  if (now_ns >= timeouts_.deadlines().earliest_ns()) Expire(now_ns);
  if (watch_.active()) [[unlikely]]
    Watch();
  if (connecting() && link_.in_group()) GoOnConnecting(now_ns);
  if (link_.state() == Link::State::kDown) {
    if (wanted()) Attempt(now_ns);
  } else {
    Post();
  }
}

size_t ClientCore::Poll(absl::Span<Operation*> done) {
  ProgressHere();
  // After a Poll() with results the caller polls again soon: work that depends on the clock can wait for a few polls.
  if (finished_.empty() || watch_.active() || --polls_until_tick_ == 0) {
    polls_until_tick_ = kPollsForEachTick;
    Tick(time_.NowNs());
  }
  return finished_.Take(done);
}

bool ClientCore::wanted() const { return connect_wanted_ || router_.waiting(); }

// Groups: checks whether the primary is still the same.
void ClientCore::Watch() {
  watch_.Poll(/*waiting=*/in_flight() > 0);
  if (const std::string* const successor = watch_.successor(); successor != nullptr) {
    link_.GoTo(*successor);
    return Lose(absl::UnavailableError("the group has another primary, or other members"));
  }
  router_.JudgeAgain();
}

void ClientCore::Expire(int64_t now_ns) {
  DeadlineList over;
  timeouts_.deadlines().TakeOver(now_ns, &over);
  EndOverdue(&over);
}

void ClientCore::GiveUp(absl::FunctionRef<bool(const Operation*)> which) {
  DeadlineList over;
  timeouts_.deadlines().TakeIf(which, &over);
  EndOverdue(&over);
}

void ClientCore::EndOverdue(DeadlineList* over) {
  // Operations that this ends leave the list.
  if (over->Any([](const Operation& operation) { return operation.engine->MayStillWrite(operation); })) {
    Lose(absl::DeadlineExceededError("a READ into the caller's memory hangs"));
  }
  const std::string why =
      trouble_.ok() ? "not done in time" : absl::StrCat("not done in time; last trouble: ", trouble_.message());
  while (Operation* const operation = over->Pop()) {
    ++stats_.timeouts;
    operation->engine->Cancel(operation);
    finished_.End(operation, absl::DeadlineExceededError(why));
  }
}

bool ClientCore::Arm() {
  if (!finished_.empty()) return false;
  Post();
  return endpoint_->Arm();
}

int64_t ClientCore::wait_ms() {
  if (in_flight() == 0 && !connect_wanted_) return -1;
  const int64_t now_ns = time_.NowNs();
  int64_t next_ns = timeouts_.deadlines().earliest_ns();
  if (link_.state() == Link::State::kDown && wanted()) next_ns = std::min(next_ns, link_.due_ns());
  if (connecting() && link_.in_group()) next_ns = std::min({next_ns, attempt_over_ns_, link_.beside_due_ns()});
  if (watch_.active()) next_ns = std::min(next_ns, watch_.due_ns());
  // Free room in a queue causes no event: look again soon.
  if (link_.ready() && router_.held_up()) next_ns = std::min(next_ns, now_ns + 1'000'000);
  if (next_ns == kNoDeadline) return -1;
  return std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

uint64_t ClientCore::memory_bytes() const {
  return sizeof *this + stats_report_.memory_bytes() + link_.directory()->memory_bytes() + router_.memory_bytes();
}

}  // namespace farlook::client
