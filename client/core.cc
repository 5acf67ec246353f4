#include "client/core.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "client/work_request_id.h"
#include "kv/cell_notice.h"
#include "kv/directory.h"
#include "kv/handshake.h"
#include "kv/limits.h"
#include "kv/lookup.h"
#include "kv/slot.h"

namespace farlook::client {
namespace {

// Memory that stays, of each of the two pools; with flights, session and directory a connection stays below 1 MiB.
constexpr size_t kIdlePoolBytes = 256 << 10;
constexpr int64_t kDefaultCacheBytes = 16 << 20;
// A Progress() ends after so many rounds even if there is always more.
constexpr int kMaxRounds = 64;
constexpr int kQuietLooks = 3;

absl::Status CheckTtl(const Operation& operation) {
  const bool touches = operation.kind == Kind::kTouch || operation.kind == Kind::kGetAndTouch;
  if (operation.ttl_ms == 0 && !touches) return absl::OkStatus();
  if (operation.ttl_ms < 1 || operation.ttl_ms > kMaxTtlMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ttl of ", operation.ttl_ms, " ms: an item lives for 1 ms to 10 years"));
  }
  if (operation.keep_ttl) return absl::InvalidArgumentError("a ttl is given, and the one there is to be kept");
  return absl::OkStatus();
}

absl::Status CheckOperation(const Operation& operation, bool read_only) {
  if (operation.key.size() > kv::kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", operation.key.size(), " bytes is longer than ", kv::kMaxKeyBytes));
  }
  if (IsCounter(operation.kind)) {
    if (absl::Status status = Counters::Check(operation); !status.ok()) return status;
  }
  const bool keyless = operation.kind == Kind::kPing || operation.kind == Kind::kStat;
  if (operation.key.empty() && !keyless) return absl::InvalidArgumentError("the key is empty");
  if (!IsWrite(operation.kind)) return absl::OkStatus();
  if (read_only) return absl::PermissionDeniedError("this client asked to read only");
  if (operation.kind == Kind::kDelete && operation.condition.kind() == Condition::Kind::kIfAbsent) {
    return absl::InvalidArgumentError(
        "a Delete that is to find no key deletes nothing: IfPresent or IfVersion is meant");
  }
  if (absl::Status status = CheckTtl(operation); !status.ok()) return status;
  if (operation.value.size() > kv::kMaxValueBytes && operation.kind != Kind::kDelete) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value of ", operation.value.size(), " bytes is longer than any server's limit"));
  }
  return absl::OkStatus();
}

}  // namespace

ClientCore::ClientCore(std::unique_ptr<rdma::Endpoint> endpoint, absl::string_view address,
                       const ClientOptions& options, const rdma::Clock& clock, uint64_t random_seed)
    : endpoint_(std::move(endpoint)),
      options_(options),
      gets_by_reads_(options.lookups == Lookups::kReads),
      time_(clock),
      timeouts_(&time_, options.timeout_ms),
      staging_(endpoint_.get(), /*readable_by_peers=*/false, kIdlePoolBytes),
      outgoing_(endpoint_.get(), /*readable_by_peers=*/true, kIdlePoolBytes),
      link_(endpoint_.get(), std::string(address), options, &time_, random_seed),
      session_({&outgoing_, &time_, &timeouts_, &finished_, &stats_, &posted_}, std::max(1u, options.max_in_flight)),
      reads_({endpoint_.get(), &staging_, link_.directory(), &session_, &cache_, &time_, &finished_, &stats_, &posted_},
             std::max(1u, options.max_in_flight)),
      direct_({&cache_, &time_, &finished_, &stats_}, options.lookups == Lookups::kReads),
      counters_({endpoint_.get(), &session_, &finished_, &stats_, &posted_}, std::max(1u, options.max_in_flight),
                static_cast<uint64_t>(std::max<int64_t>(0, options.counter_cache_bytes))) {}

ClientCore::~ClientCore() {
  if (link_.ready()) session_.SayGoodbye();
  link_.Lost(time_.last_ns());  // before the memory that its work requests name
}

// ---- Operations begin.

void ClientCore::Start(absl::Span<Operation* const> operations) {
  // Not at once as in StartUntimed(): Poll() is to return them.
  const int64_t now_ns = time_.NowNs();
  for (Operation* operation : operations) {
    const int64_t deadline_ns = timeouts_.At(now_ns, operation->timeout_ms);
    Admit(operation, deadline_ns);
    timeouts_.Note(deadline_ns);
  }
  Post();
}

void ClientCore::StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  for (Operation* operation : operations) Admit(operation, deadline_ns);
  timeouts_.Note(deadline_ns);
  Post();
}

void ClientCore::SetDeadlines(absl::Span<Operation* const> operations) {
  for (Operation* operation : operations) timeouts_.Begin(operation);
}

void ClientCore::Admit(Operation* operation, int64_t deadline_ns) {
  finished_.Begun(operation);
  operation->deadline_ns = deadline_ns;
  operation->version = 0;
  operation->touched = false;
  const bool by_reads = IsGet(operation->kind) && gets_by_reads_;
  const bool key_fits = operation->key.size() - kv::kMinKeyBytes <= kv::kMaxKeyBytes - kv::kMinKeyBytes;
  if (!by_reads || !key_fits) [[unlikely]]
    return AdmitOther(operation);
  ++stats_.gets;
  reads_.Submit(operation);
}
// What is not answered with READs, or makes no sense. Apart, so that gets need little of the stack.
ABSL_ATTRIBUTE_NOINLINE void ClientCore::AdmitOther(Operation* operation) {
  if (absl::Status status = CheckOperation(*operation, options_.read_only); !status.ok()) {
    finished_.End(operation, std::move(status));
  } else if (IsCounter(operation->kind)) {
    if (!local_) LookAfterPause();
    counters_.Submit(operation);
  } else {
    if (IsGet(operation->kind)) {
      ++stats_.gets;
      ++stats_.server_gets;
    }
    session_.Submit(operation);
  }
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
    quiet = !Handle() && asleep ? quiet + 1 : 0;
  }
}

bool ClientCore::PostAll() {
  if (!link_.ready()) {
    if (link_.state() == Link::State::kGreeting || link_.state() == Link::State::kLoading) link_.Pump();
    return false;
  }
  if (reads_.wants_pump()) reads_.Pump();
  if (counters_.wants_pump()) counters_.Pump();
  if (session_.wants_pump()) session_.Pump();  // after those that hand operations to it
  const Posted posted = std::exchange(posted_, Posted());
  if (posted.messages || posted.fetches) link_.connection()->Ring();
  return posted.fetches;
}

// ---- Completions.

void ClientCore::Progress() {
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!Handle() || !Post()) return;
  }
}

// One look at the transport. False: nothing happened.
bool ClientCore::Handle() {
  const size_t count = endpoint_->Poll(absl::MakeSpan(completions_));
  if (count == 0) return false;
  if (link_.ready() && !link_.connection()->alive()) [[unlikely]] {
    HandleLast(count);
    return true;
  }
  bool answered = false;
  for (size_t i = 0; i < count; ++i) {
    const rdma::Completion& completion = completions_[i];
    if (completion.connection != link_.connection()) continue;
    if (completion.opcode == rdma::Opcode::kRead && completion.status == rdma::WcStatus::kSuccess &&
        WorkRequestId::OwnerOf(completion.wr_id) == WorkRequestId::Owner::kReads) [[likely]] {
      answered = true;
      reads_.Completed(completion.wr_id);
    } else {
      Dispatch(completion);
    }
  }
  if (answered) link_.Proven();
  return true;
}

// The server is gone. Its memory can still be read on this host, but nothing in it is true any more; what the server
// said while it lived is.
void ClientCore::HandleLast(size_t count) {
  for (int round = 0; count > 0 && round < kMaxRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      const rdma::Completion& completion = completions_[i];
      if (completion.connection != link_.connection() || completion.opcode == rdma::Opcode::kRead ||
          completion.opcode == rdma::Opcode::kFetchAdd || completion.opcode == rdma::Opcode::kCompareSwap) {
        continue;
      }
      Dispatch(completion);
    }
    count = endpoint_->Poll(absl::MakeSpan(completions_));
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
      link_.Proven();
      counters_.Completed(completion.wr_id);
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
    if (incarnation_ != 0) {
      OnNewIncarnation();
    } else {
      cache_.Resize(static_cast<uint64_t>(options_.location_cache_bytes >= 0 ? options_.location_cache_bytes
                                                                             : (local_ ? 0 : kDefaultCacheBytes)));
    }
    incarnation_ = link_.incarnation();
  }
  if (absl::Status status = link_.Greet(session_.MakeHello(options_.read_only), time_.last_ns()); !status.ok()) {
    FailAttempt(status);
  }
}

void ClientCore::OnNewIncarnation() {
  static constexpr absl::string_view kNews =
      "another server process answers at the address (the incarnation changed): its table began empty";
  ++stats_.incarnation_changes;
  finished_.Announce(kNews);
  EndSession("the server process that it was sent to is gone");
  cache_.Clear();
  // Versions count anew in another incarnation, and may fit by chance.
  session_.Withdraw(
      [](const Operation& operation) { return operation.condition.kind() == Condition::Kind::kIfVersion; },
      [this](Operation* operation) { finished_.End(operation, absl::AbortedError(kNews)); });
}

void ClientCore::OnDirectoryRead() {
  const bool was_ready = link_.ready();
  auto done = link_.OnDirectoryRead();
  if (!done.ok()) return was_ready ? Lose(done.status()) : FailAttempt(done.status());
  if (was_ready && *done) return reads_.Refreshed();
  if (!was_ready && link_.ready()) BeginReady();
}

void ClientCore::OnFirstMessage(absl::string_view message) {
  if (absl::Status status = link_.OnFirstMessage(message, time_.NowNs()); !status.ok()) {
    return FailAttempt(status);
  }
  if (link_.ready()) BeginReady();
}

void ClientCore::BeginReady() {
  connect_wanted_ = false;
  if ((link_.welcome().flags & kv::Welcome::kResumed) == 0) {
    EndSession("the server no longer knows this client's session");
  }
  kv::Directory* const directory = link_.directory()->directory();
  const kv::ReaderContext context = {link_.hasher(), directory, directory->header().region_bytes, session_.clock()};
  const Ready ready = {link_.connection(), link_.table(),    context,           link_.incarnation(),
                       &link_.welcome(),   link_.hello_ns(), link_.welcome_ns()};
  for (Engine* engine : engines_) engine->Connect(ready);
  Post();
}

void ClientCore::OnMessage(absl::string_view message) {
  if (link_.state() == Link::State::kGreeting) return OnFirstMessage(message);
  if (kv::CellNotice::Is(message) && link_.ready()) [[unlikely]] {
    if (absl::Status status = counters_.Noticed(message); !status.ok()) Lose(std::move(status));
    return;
  }
  if (!link_.ready()) return Lose(absl::InvalidArgumentError("a message before the first request"));
  auto reply = kv::Reply::Decode(message);
  if (!reply.ok()) return Lose(reply.status());
  Operation* operation = nullptr;
  if (absl::Status status = session_.Answered(*reply, &operation); !status.ok()) return Lose(std::move(status));
  link_.Proven();
  if (operation != nullptr) OnAnswer(operation, *reply);
}

void ClientCore::OnAnswer(Operation* operation, const kv::Reply& reply) {
  if (operation->kind == Kind::kPut && reply.code == kv::Code::kOk) [[likely]] {
    operation->version = reply.version;
    if (cache_.enabled()) Remember(*operation, reply);
    return finished_.End(operation);
  }
  absl::Status status = StatusOf(reply.code);
  switch (operation->kind) {
    case Kind::kGet:
    case Kind::kExists:
    case Kind::kGetAndTouch:
      return OnGetAnswer(operation, reply);
    case Kind::kTtl:
      return OnTtlAnswer(operation, reply);
    case Kind::kStat:
      if (status.ok()) status = Deliver(reply.payload, operation);
      break;
    case Kind::kPing:
      break;
    case Kind::kCreateCounter:
    case Kind::kFetchAdd:
    case Kind::kCompareSwap:
    case Kind::kReadCounter:
    case Kind::kDeleteCounter:
      return counters_.Answered(operation, reply);
    default:
      operation->version = operation->kind == Kind::kDelete && status.ok() ? 0 : reply.version;
      if (cache_.enabled()) Remember(*operation, reply);
  }
  finished_.End(operation, std::move(status));
}

void ClientCore::OnGetAnswer(Operation* operation, const kv::Reply& reply) {
  if (reply.code == kv::Code::kNotFound) {
    operation->version = 0;
    ++stats_.misses;
    return finished_.EndAbsent(operation);
  }
  absl::Status status = StatusOf(reply.code);
  if (operation->kind == Kind::kGetAndTouch && status.ok()) operation->touched = true;
  if (status.ok() && reply.payload.empty() && !reply.slot.empty() && WantsValue(operation->kind)) {
    return reads_.SubmitAt(operation, reply.slot);  // too long for a message, or empty
  }
  operation->version = status.ok() ? reply.version : 0;
  if (status.ok()) {
    ++stats_.hits;
    if (WantsValue(operation->kind)) status = Deliver(reply.payload, operation);
  }
  finished_.End(operation, std::move(status));
}

void ClientCore::OnTtlAnswer(Operation* operation, const kv::Reply& reply) {
  absl::Status status = StatusOf(reply.code);
  operation->version = status.ok() ? reply.version : 0;
  kv::TtlResult result;
  if (!status.ok()) {
    if (reply.code == kv::Code::kNotFound) ++stats_.misses;
  } else if (kv::TtlResult::Decode(reply.payload, &result)) {
    ++stats_.hits;
    operation->left_ms = LeftMs(result.expires_ms, reply.time_us);
  } else {
    status = absl::InternalError("the server's answer does not say when the item expires");
  }
  finished_.End(operation, std::move(status));
}

// So that a writer's next read of the key is one round trip.
void ClientCore::Remember(const Operation& operation, const kv::Reply& reply) {
  const uint64_t hash = (*link_.hasher())(operation.key);
  if (reply.code == kv::Code::kNotFound || (reply.code == kv::Code::kOk && operation.kind == Kind::kDelete)) {
    cache_.Erase(hash);
  } else if (!reply.slot.empty() && reply.slot.fingerprint() == kv::FingerprintOf(hash)) {
    cache_.Insert(hash, reply.slot);
  }
}

// ---- Connections end and begin.

void ClientCore::Lose(absl::Status why) {
  if (link_.state() == Link::State::kDialling) return FailAttempt(link_.Explain(why));
  trouble_ = std::move(why);
  link_.Lost(time_.NowNs());  // destroys the connection; only then is the memory of its READs free
  for (Engine* engine : engines_) engine->Lost();
  posted_ = Posted();
}

void ClientCore::FailAttempt(const absl::Status& why) {
  trouble_ = why;
  link_.Failed(why, time_.NowNs());
  for (Engine* engine : engines_) engine->Lost();
  posted_ = Posted();
  EndSession(why.message());
  if (link_.refused().ok()) return;  // to be waited out
  connect_wanted_ = false;
  Refuse(link_.refused());
}

// What was sent and has no answer never gets one.
void ClientCore::EndSession(absl::string_view why) {
  session_.End([this, why](Operation* operation) {
    finished_.End(operation, absl::UnknownError(absl::StrCat("the write was sent, its outcome is unknown: ", why)));
  });
}

// Nobody needs to wait for a server that is not there. A device that is gone (FAILED_PRECONDITION of this host) may
// come back, and then the server is there again; what a server says itself is final, and said as it is.
void ClientCore::Refuse(const absl::Status& why) {
  const bool said_as_it_is = absl::IsPermissionDenied(why) || absl::IsResourceExhausted(why) ||
                             (absl::IsFailedPrecondition(why) && link_.turned_away());
  const absl::StatusCode code = said_as_it_is ? why.code() : absl::StatusCode::kUnavailable;
  const auto end = [this, &why, code](Operation* operation) {
    finished_.End(operation, absl::Status(code, why.message()));
  };
  for (Engine* engine : engines_) engine->Withdraw(end);
}

void ClientCore::Attempt(int64_t now_ns) {
  if (now_ns < link_.due_ns()) {
    if (!link_.refused().ok()) Refuse(link_.refused());
    return;
  }
  if (absl::Status status = link_.Dial(session_.id()); !status.ok()) FailAttempt(status);
}

// ---- Time.

size_t ClientCore::Poll(absl::Span<Operation*> done) {
  Progress();
  Tick(time_.NowNs());
  return finished_.Take(done);
}

bool ClientCore::wanted() const {
  return connect_wanted_ ||
         std::any_of(engines_.begin(), engines_.end(), [](const Engine* engine) { return engine->waiting(); });
}

void ClientCore::Tick(int64_t now_ns) {
  if (now_ns >= timeouts_.earliest_ns()) Expire(now_ns);
  if (link_.state() == Link::State::kDown) {
    if (wanted()) Attempt(now_ns);
  } else {
    Post();
  }
}

void ClientCore::Expire(int64_t now_ns) {
  const auto expired = [this](Operation* operation) {
    ++stats_.timeouts;
    finished_.End(operation, absl::DeadlineExceededError(
                                 trouble_.ok() ? "not done in time"
                                               : absl::StrCat("not done in time; last trouble: ", trouble_.message())));
  };
  const bool hangs = std::any_of(engines_.begin(), engines_.end(),
                                 [now_ns](const Engine* engine) { return engine->ExpiryNeedsBreak(now_ns); });
  if (hangs) Lose(absl::DeadlineExceededError("a READ into the caller's memory hangs"));
  int64_t earliest_ns = kNoDeadline;
  for (Engine* engine : engines_) earliest_ns = std::min(earliest_ns, engine->Expire(now_ns, expired));
  timeouts_.SetEarliest(earliest_ns);
}

bool ClientCore::Arm() {
  if (!finished_.empty()) return false;
  Post();
  return endpoint_->Arm();
}

int64_t ClientCore::wait_ms() {
  if (in_flight() == 0 && !connect_wanted_) return -1;
  const int64_t now_ns = time_.NowNs();
  int64_t next_ns = timeouts_.earliest_ns();
  if (link_.state() == Link::State::kDown && wanted()) next_ns = std::min(next_ns, link_.due_ns());
  // Room in a queue makes no event: look again soon.
  const bool held_up =
      std::any_of(engines_.begin(), engines_.end(), [](const Engine* engine) { return engine->held_up(); });
  if (link_.ready() && held_up) next_ns = std::min(next_ns, now_ns + 1'000'000);
  if (next_ns == kNoDeadline) return -1;
  return std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

uint64_t ClientCore::memory_bytes() const {
  uint64_t bytes = sizeof *this + cache_.memory_bytes() + link_.directory()->memory_bytes() + staging_.memory_bytes() +
                   outgoing_.memory_bytes();
  for (const Engine* engine : engines_) bytes += engine->memory_bytes();
  return bytes;
}

}  // namespace farlook::client
