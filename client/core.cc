#include "client/core.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "kv/cluster_map.h"
#include "kv/directory.h"
#include "kv/handshake.h"

namespace farlook::client {
namespace {

// A Progress() ends after so many rounds even if there is always more.
constexpr int kMaxRounds = 64;
constexpr int kQuietLooks = 3;

}  // namespace

ClientCore::ClientCore(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address,
                       const ClientOptions& options, const rdma::Clock& clock, uint64_t random_seed)
    : endpoint_(std::move(endpoint)),
      options_(options),
      time_(clock),
      timeouts_(&time_, options.timeout_ms),
      told_(&stats_),
      latencies_(&time_, &stats_, &told_),
      finished_(&latencies_),
      watch_(endpoint_.get(), &time_, &options_),
      link_(endpoint_.get(), address, options, &time_, random_seed),
      engines_({endpoint_.get(), link_.directory(), &time_, &timeouts_, &finished_, &latencies_, &stats_}, options) {}

ClientCore::~ClientCore() {
  if (link_.ready()) told_.Tell(time_.NowNs());
  if (link_.ready()) engines_.SayGoodbye();
  link_.Lost(time_.last_ns());  // before the memory that its work requests name
  watch_.Lost();
}

// ---- Operations begin.

void ClientCore::Start(absl::Span<Operation* const> operations) {
  // Not at once as in StartUntimed(): Poll() is to return them.
  const int64_t now_ns = time_.NowNs();
  for (Operation* operation : operations) Admit(operation, timeouts_.At(now_ns, operation->timeout_ms));
  Post();
}

void ClientCore::StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  if (operations.size() == 1) return StartUntil(operations[0], deadline_ns);
  for (Operation* operation : operations) Admit(operation, deadline_ns);
  Post();
}

// A put need not wait for others that could go with it in one message.
void ClientCore::StartUntil(Operation* operation, int64_t deadline_ns) {
  Begin(operation, deadline_ns);
  if (engines_.StartPut(operation)) [[likely]]
    return;
  StartBegun(operation, operation->kind);
  Post();
}

bool ClientCore::StartAtOnceAs(Operation* operation, Kind kind, OperationTiming timing) {
  const bool ended = engines_.StartAtOnce(operation, kind, [this, operation, timing] {
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

// If the connection broke while the client was idle, the client cannot tell whether an atomic posted now ran. On this
// host the post says so; elsewhere it goes out, so the client first looks for the news of the end.
void ClientCore::LookAfterPause() {
  const int64_t now_ns = time_.NowNs();
  if (now_ns - std::exchange(counted_ns_, now_ns) < kPauseNs || !link_.ready()) return;
  // An endpoint looks further than at the completions when it was to sleep and none of those woke it; wake-ups of
  // earlier ones may still be there.
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
  engines_.Pump();
  return RingPosted();
}

// ---- Completions.

void ClientCore::Progress() { ProgressHere(); }

// Most calls that find something need one round: what others need these do without.
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
  if (absl::Status status = engines_.Received(message); !status.ok()) [[unlikely]]
    return Lose(std::move(status));
  link_.Proven();
}

void ClientCore::OnEarlyMessage(absl::string_view message) {
  if (link_.state() == Link::State::kGreeting) return OnFirstMessage(message);
  Lose(absl::InvalidArgumentError("a message before the first request"));
}

// One look at the transport. False: nothing happened. Inlined, as is what leads a message to its engine: each call on
// this way would cost every operation a dozen instructions.
[[gnu::always_inline]] inline bool ClientCore::Handle() {
  const size_t count = endpoint_->Poll(absl::MakeSpan(completions_));
  if (count == 0) return false;
  if (watch_.active()) [[unlikely]]
    time_.NowNs();  // what is here was complete by now
  const rdma::Completion* const end = completions_.data() + count;
  bool is_alive = false;  // the server was, when what is here was complete
  const rdma::Completion* next = completions_.data();
  do {
    const rdma::Completion& completion = *next;
    if (completion.connection != link_.connection()) [[unlikely]] {
      watch_.Handle(completion);
      continue;
    }
    if (completion.opcode == rdma::Opcode::kReceive) {
      OnMessage(absl::string_view(completion.message.data(), completion.message.size()));
      continue;
    }
    // Messages are what the server said while it lived; of its memory nobody else would tell that it is gone.
    if (!is_alive && link_.ready() && !link_.connection()->alive()) [[unlikely]] {
      HandleLast(absl::MakeConstSpan(next, end));
      return true;
    }
    is_alive = true;
    if (completion.opcode == rdma::Opcode::kRead && completion.status == rdma::WcStatus::kSuccess &&
        WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kReads) [[likely]] {
      link_.Proven();
      engines_.ReadCompleted(completion.wr_id);
    } else {
      Dispatch(completion);
    }
  } while (++next != end);
  if (watch_.active() && watch_.TakeProven()) [[unlikely]]
    engines_.JudgeAgain();
  return true;
}

// The server is gone. Its memory can still be read on this host, but nothing in it is true any more; what the server
// said while it lived is.
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
        if (completion.status == rdma::WcStatus::kFlushed) return;  // kDisconnected follows, and knows why
        Lose(absl::UnavailableError(
            absl::StrCat("a READ or atomic failed with work completion status ", static_cast<int>(completion.status))));
        return;
      }
      if (WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kDirectory) return OnDirectoryRead();
      if (WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kWords) return watch_.Handle(completion);
      link_.Proven();
      engines_.FetchCompleted(completion.wr_id);
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
      moved_ = true;  // the Welcome tells whether the session goes on there
    } else if (incarnation_ != 0) {
      OnNewIncarnation();
    }
    incarnation_ = link_.incarnation();
  }
  if (absl::Status status = link_.Greet(engines_.MakeHello(), time_.last_ns()); !status.ok()) {
    FailAttempt(status);
  }
}

void ClientCore::OnNewIncarnation() {
  static constexpr absl::string_view kNews =
      "another server process answers at the address (the incarnation changed): its table began empty";
  ++stats_.incarnation_changes;
  finished_.Announce(kNews);
  engines_.ForgetServer(kNews);
}

void ClientCore::OnDirectoryRead() {
  const bool was_ready = link_.ready();
  auto done = link_.OnDirectoryRead();
  if (!done.ok()) return was_ready ? Lose(done.status()) : FailAttempt(done.status());
  if (was_ready) return *done ? engines_.DirectoryRefreshed() : engines_.Attend();
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
  if (std::exchange(moved_, false)) {
    if (!resumed) OnNewIncarnation();
  } else if (!resumed) {
    engines_.EndSession("the server no longer knows this client's session");
  }
  kv::Directory* const directory = link_.directory()->directory();
  const kv::ReaderContext context = {link_.hasher(), directory, directory->header().region_bytes, engines_.clock()};
  slow_attempts_ = 0;
  watch_.Begin(link_.connection(), link_.table(), link_.welcome(), link_.members());
  engines_.clock()->SetInGroup(watch_.active());
  const Ready ready = {link_.connection(),
                       link_.table(),
                       context,
                       link_.incarnation(),
                       &link_.welcome(),
                       link_.hello_ns(),
                       link_.welcome_ns(),
                       watch_.active() ? &watch_ : nullptr};
  if (!group_.empty()) EnterGroup();
  if (owners_ != nullptr) TellSlots();
  engines_.Connect(ready);
  if (owners_ != nullptr) KeepOrder();
  told_.Connect(link_.connection(), link_.welcome().figures_ms, time_.last_ns());
  Post();
}

// ---- Connections end and begin.

void ClientCore::Lose(absl::Status why) {
  if (link_.state() == Link::State::kDialling) return FailAttempt(link_.Explain(why));
  trouble_ = std::move(why);
  link_.Lost(time_.NowNs());  // destroys the connection; only then is the memory of its READs free
  watch_.Lost();
  engines_.Lost();
  told_.Lost();
}

void ClientCore::FailAttempt(const absl::Status& why) {
  trouble_ = why;
  link_.Failed(why, time_.NowNs());
  watch_.Lost();
  engines_.Lost();
  told_.Lost();
  const bool waits = link_.refused().ok();
  if (!waits || !link_.in_group()) engines_.EndSession(why.message());
  if (waits) return;
  connect_wanted_ = false;
  Refuse(link_.refused());
}

// Nobody needs to wait for a server that is not there. A device that is gone (FAILED_PRECONDITION of this host) may
// come back, and then the server is there again; what a server says itself is final, and said as it is.
void ClientCore::Refuse(const absl::Status& why) {
  const bool said_as_it_is = absl::IsPermissionDenied(why) || absl::IsUnauthenticated(why) ||
                             absl::IsResourceExhausted(why) ||
                             ((absl::IsFailedPrecondition(why) || absl::IsDataLoss(why)) && link_.turned_away());
  const absl::StatusCode code = said_as_it_is ? why.code() : absl::StatusCode::kUnavailable;
  const auto end = [this, &why, code](Operation* operation) {
    finished_.End(operation, absl::Status(code, why.message()));
  };
  engines_.Withdraw([](const Operation&) { return true; }, end);
}

void ClientCore::Attempt(int64_t now_ns) {
  if (now_ns < link_.due_ns()) {
    if (!link_.refused().ok()) Refuse(link_.refused());
    return;
  }
  attempt_over_ns_ = now_ns + (kAttemptNs << std::min(slow_attempts_, kMostDoublings));
  if (absl::Status status = link_.Dial(engines_.session_id()); !status.ok()) FailAttempt(status);
}

// ---- Time.

[[gnu::always_inline]] inline void ClientCore::Tick(int64_t now_ns) {
  if (now_ns >= timeouts_.deadlines().earliest_ns()) Expire(now_ns);
  if (watch_.active()) [[unlikely]]
    Watch();
  if (connecting() && link_.in_group() && now_ns >= attempt_over_ns_) {
    ++slow_attempts_;
    FailAttempt(absl::DeadlineExceededError("a member of the group lets nobody in"));
  }
  if (link_.state() == Link::State::kDown) {
    if (wanted()) Attempt(now_ns);
  } else {
    Post();
  }
}

size_t ClientCore::Poll(absl::Span<Operation*> done) {
  ProgressHere();
  // Who is given something comes again: what only the clock tells can wait for a few of these.
  if (finished_.empty() || watch_.active() || --polls_until_tick_ == 0) {
    polls_until_tick_ = kPollsForEachTick;
    Tick(time_.NowNs());
  }
  return finished_.Take(done);
}

bool ClientCore::wanted() const { return !is_nobody_ && (connect_wanted_ || engines_.waiting()); }

// Of a group: whether its primary is still the one there is.
void ClientCore::Watch() {
  watch_.Poll(/*waiting=*/in_flight() > 0);
  if (const std::string* const successor = watch_.successor(); successor != nullptr) {
    link_.GoTo(*successor);
    return Lose(absl::UnavailableError("the group has another primary, or other members"));
  }
  engines_.JudgeAgain();
}

void ClientCore::Expire(int64_t now_ns) {
  DeadlineList over;
  timeouts_.deadlines().TakeOver(now_ns, &over);
  // What this ends leaves the list.
  if (over.Any([](const Operation& operation) { return operation.engine->Clings(operation); })) {
    Lose(absl::DeadlineExceededError("a READ into the caller's memory hangs"));
  }
  std::string why =
      trouble_.ok() ? "not done in time" : absl::StrCat("not done in time; last trouble: ", trouble_.message());
  while (Operation* const operation = over.Pop()) {
    ++stats_.timeouts;
    operation->engine->Cancel(operation);
    if (is_nobody_) {
      why = absl::StrCat("not done in time: slot ", kv::ClusterSlotOf(operation->hash),
                         " of the cluster is being moved, or no group has it");
    }
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
  if (connecting() && link_.in_group()) next_ns = std::min(next_ns, attempt_over_ns_);
  if (watch_.active()) next_ns = std::min(next_ns, watch_.due_ns());
  // Room in a queue makes no event: look again soon.
  if (link_.ready() && engines_.held_up()) next_ns = std::min(next_ns, now_ns + 1'000'000);
  if (next_ns == kNoDeadline) return -1;
  return std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

uint64_t ClientCore::memory_bytes() const {
  return sizeof *this + told_.memory_bytes() + link_.directory()->memory_bytes() + engines_.memory_bytes();
}

}  // namespace farlook::client
