#include "client/core.h"

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "kv/cell_notice.h"
#include "kv/limits.h"
#include "kv/slot.h"

namespace farlook::client {
namespace {

// Memory that stays, of each of the two pools; with flights, session and directory a connection stays below 1 MiB.
constexpr size_t kIdlePoolBytes = 256 << 10;
constexpr int64_t kDefaultCacheBytes = 16 << 20;
// A Progress() ends after so many rounds even if there is always more.
constexpr int kMaxRounds = 64;
constexpr int kQuietLooks = 3;

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
      staging_(endpoint_.get(), /*readable_by_peers=*/false, kIdlePoolBytes),
      outgoing_(endpoint_.get(), /*readable_by_peers=*/true, kIdlePoolBytes),
      directory_(endpoint_.get()),
      session_(&outgoing_, std::max(1u, options.max_in_flight), &stats_),
      reads_({endpoint_.get(), &staging_, &directory_, &session_, &cache_, &time_, &finished_, &stats_},
             std::max(1u, options.max_in_flight)),
      direct_({&time_, &finished_, &stats_}),
      counters_({endpoint_.get(), &session_, &finished_, &stats_}, std::max(1u, options.max_in_flight),
                static_cast<uint64_t>(std::max<int64_t>(0, options.counter_cache_bytes))),
      connector_(endpoint_.get(), std::string(address), options, random_seed) {}

ClientCore::~ClientCore() = default;

// ---- Operations begin.

void ClientCore::Start(absl::Span<Operation* const> operations) {
  // Not at once as in StartUntimed(): Poll() is to return them.
  for (Operation* operation : operations) Admit(operation);
  SetDeadlines(operations);
  Post();
}

void ClientCore::StartUntil(absl::Span<Operation* const> operations, int64_t deadline_ns) {
  for (Operation* operation : operations) {
    Admit(operation);
    SetDeadline(operation, deadline_ns);
  }
  Post();
}

int64_t ClientCore::DeadlineAt(int64_t now_ns, int64_t timeout_ms) const {
  if (timeout_ms <= 0) timeout_ms = options_.timeout_ms;
  return now_ns + std::clamp<int64_t>(timeout_ms, 0, (kNoDeadline - 1 - now_ns) / 1'000'000) * 1'000'000;
}

void ClientCore::SetDeadlines(absl::Span<Operation* const> operations) {
  const int64_t now_ns = time_.NowNs();
  for (Operation* operation : operations) SetDeadline(operation, DeadlineAt(now_ns, operation->timeout_ms));
}

void ClientCore::SetDeadline(Operation* operation, int64_t deadline_ns) {
  operation->deadline_ns = deadline_ns;
  earliest_ns_ = std::min(earliest_ns_, deadline_ns);
}

void ClientCore::Admit(Operation* operation) {
  finished_.Begun(operation);
  operation->deadline_ns = kNoDeadline;
  operation->version = 0;
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

// What becomes of an atomic on a connection that ended while nobody looked, nobody knows. On this host a post tells;
// elsewhere it goes out, so the news of the end, which may be there already, is looked for first.
void ClientCore::LookAfterPause() {
  const int64_t now_ns = time_.NowNs();
  if (now_ns - std::exchange(counted_ns_, now_ns) < kPauseNs || phase_ != Phase::kReady) return;
  // An endpoint looks further than at the completions when it was to sleep and none of those woke it; wake-ups of
  // earlier ones may still be there.
  for (int round = 0, quiet = 0; round < kMaxRounds && quiet < kQuietLooks; ++round) {
    const bool asleep = endpoint_->Arm();
    quiet = !Handle() && asleep ? quiet + 1 : 0;
  }
}

bool ClientCore::PostAll() {
  if (phase_ == Phase::kReady) {
    if (reads_.held_up()) reads_.Proceed();
    if (counters_.wants_attention()) counters_.Proceed();
    const auto failed = [this](Operation* operation, absl::Status why) { finished_.End(operation, std::move(why)); };
    const bool sent = session_.sendable() && session_.Send(connector_.connection(), failed);
    const bool counted = counters_.TakePosted();
    const bool posted = reads_.TakePosted() || counted;
    if (sent || posted) connector_.connection()->Ring();
    return posted;
  }
  if (phase_ != Phase::kLoading || !directory_.Post()) return false;
  connector_.connection()->Ring();
  return true;
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
  if (phase_ == Phase::kReady && !connector_.connection()->alive()) [[unlikely]] {
    HandleLast(count);
    return true;
  }
  bool answered = false;
  for (size_t i = 0; i < count; ++i) {
    const rdma::Completion& completion = completions_[i];
    if (completion.connection != connector_.connection()) continue;
    // What Reads posts has even numbers; the directory and the counters have odd ones.
    if (completion.opcode == rdma::Opcode::kRead && completion.status == rdma::WcStatus::kSuccess &&
        (completion.wr_id & 1) == 0) [[likely]] {
      answered = true;
      reads_.Completed(completion.wr_id);
    } else {
      Dispatch(completion);
    }
  }
  if (answered) connector_.Proven();
  return true;
}

// The server is gone. Its memory can still be read on this host, but nothing in it is true any more; what the server
// said while it lived is.
void ClientCore::HandleLast(size_t count) {
  for (int round = 0; count > 0 && round < kMaxRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      const rdma::Completion& completion = completions_[i];
      if (completion.connection != connector_.connection() || completion.opcode == rdma::Opcode::kRead ||
          completion.opcode == rdma::Opcode::kFetchAdd || completion.opcode == rdma::Opcode::kCompareSwap) {
        continue;
      }
      Dispatch(completion);
    }
    count = endpoint_->Poll(absl::MakeSpan(completions_));
  }
  if (phase_ == Phase::kReady) Lose(absl::UnavailableError("the server process is gone"));
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
      if (!Counters::Owns(completion.wr_id)) return OnDirectoryRead();
      connector_.Proven();
      counters_.Completed(completion.wr_id);
      return;
    case rdma::Opcode::kReceive:
      OnMessage(absl::string_view(completion.message.data(), completion.message.size()));
      return;
    case rdma::Opcode::kConnected:
      OnConnected();
      return;
    case rdma::Opcode::kDisconnected:
      Lose(connector_.connection()->status());
      return;
  }
}

void ClientCore::OnConnected() {
  auto welcome = connector_.Connected();
  if (!welcome.ok()) return FailAttempt(welcome.status());
  if (std::exchange(was_connected_, true)) ++stats_.reconnects;
  rdma::Connection* connection = connector_.connection();
  local_ = connection->capabilities().local;
  const bool resumed = (welcome->flags & kv::Welcome::kResumed) != 0;
  welcome_ = *welcome;

  if (welcome_.incarnation != incarnation_ || !directory_.loaded()) {
    if (incarnation_ != 0 && welcome_.incarnation != incarnation_) OnNewIncarnation();
    if (incarnation_ == 0) {
      cache_.Resize(static_cast<uint64_t>(options_.location_cache_bytes >= 0 ? options_.location_cache_bytes
                                                                             : (local_ ? 0 : kDefaultCacheBytes)));
    }
    EndSession("the server does not know this client's session");
    incarnation_ = welcome_.incarnation;
    phase_ = Phase::kLoading;
    if (absl::Status status = directory_.Load(connection, welcome_.table); !status.ok()) {
      FailAttempt(std::move(status));
    }
    return;
  }
  directory_.Reconnect(connection, welcome_.table);
  if (resumed && session_.exists()) {
    session_.Resume(welcome_);
  } else {
    EndSession("the server no longer knows this client's session");
    session_.Begin(welcome_, &*hasher_);
  }
  BeginReady();
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
  auto done = directory_.Completed();
  if (!done.ok()) {
    if (phase_ == Phase::kLoading) return FailAttempt(done.status());
    return Lose(done.status());
  }
  if (!*done) {
    if (phase_ == Phase::kReady && directory_.Post()) connector_.connection()->Ring();
    return;  // while loading, Post() posts the next
  }
  if (phase_ == Phase::kReady) return reads_.Refreshed();

  const kv::RegionHeader& header = directory_.directory()->header();
  if (header.incarnation != welcome_.incarnation) {
    return FailAttempt(absl::FailedPreconditionError("the server's memory is of another incarnation than it says"));
  }
  hasher_.emplace(header.hash_seed);
  session_.Begin(welcome_, &*hasher_);
  BeginReady();
}

void ClientCore::BeginReady() {
  phase_ = Phase::kReady;
  connect_wanted_ = false;
  rdma::Connection* connection = connector_.connection();
  const kv::ReaderContext context = {&*hasher_, directory_.directory(), directory_.directory()->header().region_bytes};
  reads_.Connect(connection, welcome_.table, context);
  // It remembers no locations: where a READ is a cache miss, that rarely pays.
  if (local_ && !cache_.enabled() && options_.lookups == Lookups::kReads)
    direct_.Connect(connection, welcome_.table, context);
  counters_.Connect(connection, welcome_.counters, welcome_.atomics, &*hasher_);
  Post();
}

void ClientCore::OnMessage(absl::string_view message) {
  if (kv::CellNotice::Is(message) && phase_ == Phase::kReady) [[unlikely]] {
    if (absl::Status status = counters_.Noticed(message); !status.ok()) Lose(std::move(status));
    return;
  }
  auto answer = phase_ == Phase::kReady ? session_.Receive(message)
                                        : absl::InvalidArgumentError("a message before the first request");
  if (!answer.ok()) return Lose(answer.status());
  connector_.Proven();
  if (answer->operation != nullptr) OnAnswer(answer->operation, answer->reply);
}

void ClientCore::OnAnswer(Operation* operation, const kv::Reply& reply) {
  absl::Status status = StatusOf(reply.code);
  switch (operation->kind) {
    case Kind::kGet:
    case Kind::kExists:
      return OnGetAnswer(operation, reply);
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
  if (status.ok() && reply.payload.empty() && !reply.slot.empty() && operation->kind == Kind::kGet) {
    return reads_.SubmitAt(operation, reply.slot);  // too long for a message, or empty
  }
  operation->version = status.ok() ? reply.version : 0;
  if (status.ok()) {
    ++stats_.hits;
    if (operation->kind == Kind::kGet) status = Deliver(reply.payload, operation);
  }
  finished_.End(operation, std::move(status));
}

// So that a writer's next read of the key is one round trip.
void ClientCore::Remember(const Operation& operation, const kv::Reply& reply) {
  const uint64_t hash = (*hasher_)(operation.key);
  if (reply.code == kv::Code::kNotFound || (reply.code == kv::Code::kOk && operation.kind == Kind::kDelete)) {
    cache_.Erase(hash);
  } else if (!reply.slot.empty() && reply.slot.fingerprint() == kv::FingerprintOf(hash)) {
    cache_.Insert(hash, reply.slot);
  }
}

// ---- Connections end and begin.

void ClientCore::Lose(absl::Status why) {
  if (phase_ == Phase::kConnecting) return FailAttempt(std::move(why));
  trouble_ = std::move(why);
  directory_.Disconnect();
  connector_.Lost(time_.NowNs());  // destroys the connection; only then is the memory of its READs free
  reads_.Disconnect();
  direct_.Disconnect();
  counters_.Disconnect();
  phase_ = Phase::kDown;
}

void ClientCore::FailAttempt(absl::Status why) {
  trouble_ = why;
  directory_.Disconnect();
  connector_.Failed(std::move(why), time_.NowNs());
  reads_.Disconnect();
  direct_.Disconnect();
  counters_.Disconnect();
  phase_ = Phase::kDown;
  connect_wanted_ = false;
  EndSession(connector_.refused().message());
  Refuse(connector_.refused());
}

// What was sent and has no answer never gets one.
void ClientCore::EndSession(absl::string_view why) {
  session_.End([this, why](Operation* operation) {
    finished_.End(operation, absl::UnknownError(absl::StrCat("the write was sent, its outcome is unknown: ", why)));
  });
}

// Nobody needs to wait for a server that is not there.
void ClientCore::Refuse(const absl::Status& why) {
  if (options_.wait_for_server && (absl::IsUnavailable(why) || absl::IsResourceExhausted(why))) {
    return;  // they go on waiting, until their deadlines
  }
  const absl::StatusCode code =
      why.code() == absl::StatusCode::kPermissionDenied ? why.code() : absl::StatusCode::kUnavailable;
  const auto end = [this, &why, code](Operation* operation) {
    finished_.End(operation, absl::Status(code, why.message()));
  };
  reads_.Withdraw(end);
  counters_.Withdraw(end);
  session_.Withdraw([](const Operation&) { return true; }, end);
}

void ClientCore::Attempt(int64_t now_ns) {
  if (now_ns < connector_.due_ns()) {
    if (!connector_.refused().ok()) Refuse(connector_.refused());
    return;
  }
  if (absl::Status status = connector_.Begin(session_.MakeHello(options_.read_only)); !status.ok()) {
    FailAttempt(std::move(status));
    return;
  }
  phase_ = Phase::kConnecting;
}

// ---- Time.

size_t ClientCore::Poll(absl::Span<Operation*> done) {
  Progress();
  Tick(time_.NowNs());
  return finished_.Take(done);
}

void ClientCore::Tick(int64_t now_ns) {
  if (now_ns >= earliest_ns_) Expire(now_ns);
  if (phase_ == Phase::kDown) {
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
  if (reads_.ExpiryNeedsBreak(now_ns)) Lose(absl::DeadlineExceededError("a READ into the caller's memory hangs"));
  const int64_t of_reads_ns = reads_.Expire(now_ns, expired);
  const int64_t of_counters_ns = counters_.Expire(now_ns, expired);
  earliest_ns_ = std::min({of_reads_ns, of_counters_ns, session_.Expire(now_ns, expired)});
}

bool ClientCore::Arm() {
  if (!finished_.empty()) return false;
  Post();
  return endpoint_->Arm();
}

int64_t ClientCore::wait_ms() {
  if (in_flight() == 0 && !connect_wanted_) return -1;
  const int64_t now_ns = time_.NowNs();
  int64_t next_ns = earliest_ns_;
  if (phase_ == Phase::kDown && wanted()) next_ns = std::min(next_ns, connector_.due_ns());
  // Room in a queue makes no event: look again soon.
  if (phase_ == Phase::kReady && (reads_.stalled() || session_.sendable() || counters_.held_up())) {
    next_ns = std::min(next_ns, now_ns + 1'000'000);
  }
  if (next_ns == kNoDeadline) return -1;
  return std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

uint64_t ClientCore::memory_bytes() const {
  return sizeof *this + cache_.memory_bytes() + directory_.memory_bytes() + staging_.memory_bytes() +
         outgoing_.memory_bytes() + session_.memory_bytes() + reads_.memory_bytes() + direct_.memory_bytes() +
         counters_.memory_bytes();
}

}  // namespace farlook::client
