#include "client/connection/link.h"

#include <algorithm>
#include <utility>

namespace farlook::client {
namespace {

// First bytes of a RejectData. The transport may have put its own text before them.
constexpr absl::string_view kMagicBytes = "FRLK";

constexpr int64_t kMsNs = 1'000'000;

}  // namespace

Link::Link(rdma::Endpoint* endpoint, absl::string_view address, const ClientOptions& options, LastTime* time,
           uint64_t random_seed)
    : options_(options),
      wait_for_server_(options.wait_for_server),
      random_(static_cast<std::minstd_rand::result_type>(random_seed)),
      directory_(endpoint, time),
      dialer_(endpoint, address, &options_),
      greeting_(&options_) {}

std::vector<std::string> Link::members() const { return SplitAddresses(welcome_.members); }

absl::Status Link::Dial(uint64_t session, int64_t now_ns) {
  may_pass_.reset();
  retry_after_ms_ = 0;
  if (absl::Status status = dialer_.Dial(session, in_group(), now_ns); !status.ok()) return status;
  state_ = State::kDialling;
  return absl::OkStatus();
}

bool Link::FailedBeside(const absl::Status& why, int64_t now_ns) {
  if (state_ != State::kDialling || !MayPass(why) || !dialer_.ContinueBeside(now_ns)) return false;
  may_pass_.reset();
  return true;
}

absl::Status Link::OnConnected() {
  dialer_.OnConnected();
  if (absl::Status status = greeting_.Connected(connection()); !status.ok()) return status;
  state_ = State::kGreeting;
  return absl::OkStatus();
}

absl::Status Link::Greet(const kv::Hello& hello, int64_t now_ns) {
  hello_ns_ = now_ns;
  greeting_.SendHello(hello);
  if (!greeting_.asked()) {
    if (absl::Status status = LoadDirectory(); !status.ok()) return status;
  }
  Pump();
  return absl::OkStatus();
}

absl::Status Link::LoadDirectory() {
  if (directory_.loaded() && directory_.directory()->header().incarnation == greeting_.accept().incarnation) {
    directory_.Reconnect(connection(), greeting_.table());
    return absl::OkStatus();
  }
  return directory_.Load(connection(), greeting_.table());
}

void Link::Pump() {
  bool posted = greeting_.Post();
  posted |= directory_.Post();
  if (posted) connection()->Ring();
}

absl::Status Link::Turned(kv::RefusalCode code, absl::string_view text) {
  may_pass_ = kv::WorthTryingAgain(code);
  if (code == kv::RefusalCode::kNotPrimary) {
    is_group_ = true;
    dialer_.SetPrimary(text);
  }
  return kv::RefusalStatus(code, text);
}

absl::Status Link::OnFirstMessage(absl::string_view message, int64_t now_ns) {
  if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) {
    auto refusal = kv::Refusal::Decode(message);
    if (!refusal.ok()) return refusal.status();
    retry_after_ms_ = refusal->retry_after_ms;
    return Turned(refusal->code, refusal->text);
  }
  if (greeting_.asked() && kv::IsFirstMessage(message, kv::FirstMessage::kChallenge)) {
    if (absl::Status status = greeting_.Answer(message); !status.ok()) return status;
    Pump();
    return absl::OkStatus();
  }
  auto welcome = kv::Welcome::Decode(message);
  if (!welcome.ok()) return welcome.status();
  welcome_ = *welcome;
  welcome_ns_ = now_ns;
  for (const std::string& member : members()) dialer_.Learn(member);
  if (greeting_.asked()) {
    if (absl::Status status = greeting_.TakeGrant(welcome_); !status.ok()) return status;
    if (absl::Status status = LoadDirectory(); !status.ok()) return status;
    Pump();
  }
  state_ = State::kLoading;
  return CheckDirectory();
}

absl::StatusOr<bool> Link::OnDirectoryRead() {
  auto done = directory_.Completed();
  if (!done.ok()) return done.status();
  if (!*done) {
    Pump();
    return false;
  }
  if (state_ == State::kLoading) {
    if (absl::Status status = CheckDirectory(); !status.ok()) return status;
  }
  return true;
}

// After the Welcome: becomes ready if the directory is loaded too.
absl::Status Link::CheckDirectory() {
  if (!directory_.loaded() || directory_.busy()) return absl::OkStatus();
  const kv::RegionHeader& header = directory_.directory()->header();
  if (header.incarnation != greeting_.accept().incarnation) {
    return absl::FailedPreconditionError("the incarnation in the server's memory differs from that in its reply");
  }
  hasher_.emplace(header.hash_seed);
  state_ = State::kReady;
  reached_ = dialer_.address();
  is_group_ = (greeting_.accept().flags & kv::AcceptData::kGroup) != 0;
  dialer_.OnReady();
  refused_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status Link::Explain(const absl::Status& status) {
  const size_t at = status.message().find(kMagicBytes);
  if (at == absl::string_view::npos) return status;
  auto reject = kv::RejectData::Decode(status.message().substr(at));
  return reject.ok() ? Turned(reject->code, reject->text) : reject.status();
}

void Link::GoTo(absl::string_view address) {
  dialer_.GoTo(address);
  backoff_ms_ = 0;
}

void Link::LearnMembers(const std::vector<std::string>& members) {
  for (const std::string& member : members) dialer_.Learn(member);
  if (state_ == State::kDown) GoTo(members.front());
}

void Link::Failed(absl::Status why, int64_t now_ns) {
  Close(now_ns);
  // Each address once without a pause; then all of them again.
  if (in_group() && dialer_.Advance()) due_ns_ = now_ns;
  due_ns_ = std::max(due_ns_, now_ns + retry_after_ms_ * kMsNs);
  if (why.ok()) why = absl::UnavailableError("the connection ended");
  const bool waits = wait_for_server_ || in_group();
  refused_ = waits && MayPass(why) ? absl::OkStatus() : std::move(why);
}

// Returns whether the reason of a failed attempt may pass.
bool Link::MayPass(const absl::Status& why) const {
  // Without a reply of the server: it is gone or does not answer.
  const bool is_silent = absl::IsUnavailable(why) || absl::IsNotFound(why) || absl::IsDeadlineExceeded(why);
  return may_pass_.value_or(is_silent);
}

void Link::Lost(int64_t now_ns) { Close(now_ns); }

void Link::Close(int64_t now_ns) {
  directory_.Disconnect();
  greeting_.Lost();
  dialer_.Close();
  state_ = State::kDown;
  // A pause of b ms is drawn from (b / 2, b].
  const int64_t pause_ns = backoff_ms_ * kMsNs;
  due_ns_ = now_ns + (pause_ns == 0 ? 0 : pause_ns - static_cast<int64_t>(random_() % (pause_ns / 2)));
  const int64_t least_ms = std::max<int64_t>(1, options_.min_backoff_ms);
  backoff_ms_ = std::clamp(2 * backoff_ms_, least_ms, std::max(least_ms, options_.max_backoff_ms));
}

}  // namespace farlook::client
