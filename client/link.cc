#include "client/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::client {
namespace {

// How the bytes of a RejectData begin: the transport may have put its own words before them.
constexpr absl::string_view kMagicBytes = "FRLK";

constexpr int64_t kMsNs = 1'000'000;

}  // namespace

Link::Link(rdma::Endpoint* endpoint, std::string address, const ClientOptions& options, LastTime* time,
           uint64_t random_seed)
    : endpoint_(endpoint),
      address_(std::move(address)),
      options_(options),
      random_(static_cast<std::minstd_rand::result_type>(random_seed)),
      directory_(endpoint, time) {}

absl::Status Link::Dial(uint64_t session) {
  kv::ConnectData data;
  data.session = session;
  if (options_.read_only) data.flags |= kv::ConnectData::kReadOnly;
  may_pass_.reset();
  retry_after_ms_ = 0;
  auto connection = endpoint_->Connect(address_, data.Encode(), options_.timeout_ms);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  state_ = State::kDialling;
  return absl::OkStatus();
}

absl::Status Link::OnConnected() {
  auto accept = kv::AcceptData::Decode(connection_->welcome());
  if (!accept.ok()) return accept.status();
  if ((accept->flags & kv::AcceptData::kAuthentication) != 0) {
    return absl::FailedPreconditionError(
        "the server asks clients to prove who they are, which this release cannot; use a later one");
  }
  accept_ = *accept;
  state_ = State::kGreeting;
  return absl::OkStatus();
}

absl::Status Link::Greet(const kv::Hello& hello, int64_t now_ns) {
  hello_ = hello.Encode();
  hello_ns_ = now_ns;
  if (directory_.loaded() && directory_.directory()->header().incarnation == accept_.incarnation) {
    directory_.Reconnect(connection_.get(), accept_.table);
  } else if (absl::Status status = directory_.Load(connection_.get(), accept_.table); !status.ok()) {
    return status;
  }
  Pump();
  return absl::OkStatus();
}

void Link::Pump() {
  bool posted = false;
  if (!hello_.empty() && connection_->PostSend(hello_, {})) {
    hello_.clear();
    posted = true;
  }
  posted |= directory_.Post();
  if (posted) connection_->Ring();
}

absl::Status Link::Turned(kv::RefusalCode code, absl::string_view text) {
  may_pass_ = kv::WorthTryingAgain(code);
  return kv::RefusalStatus(code, text);
}

absl::Status Link::OnFirstMessage(absl::string_view message, int64_t now_ns) {
  if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) {
    auto refusal = kv::Refusal::Decode(message);
    if (!refusal.ok()) return refusal.status();
    retry_after_ms_ = refusal->retry_after_ms;
    return Turned(refusal->code, refusal->text);
  }
  auto welcome = kv::Welcome::Decode(message);
  if (!welcome.ok()) return welcome.status();
  welcome_ = *welcome;
  welcome_ns_ = now_ns;
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

// Where the Welcome is there: ready, if the directory is too.
absl::Status Link::CheckDirectory() {
  if (!directory_.loaded() || directory_.busy()) return absl::OkStatus();
  const kv::RegionHeader& header = directory_.directory()->header();
  if (header.incarnation != accept_.incarnation) {
    return absl::FailedPreconditionError("the server's memory is of another incarnation than it says");
  }
  hasher_.emplace(header.hash_seed);
  state_ = State::kReady;
  refused_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status Link::Explain(const absl::Status& status) {
  const size_t at = status.message().find(kMagicBytes);
  if (at == absl::string_view::npos) return status;
  auto reject = kv::RejectData::Decode(status.message().substr(at));
  return reject.ok() ? Turned(reject->code, reject->text) : reject.status();
}

void Link::Failed(absl::Status why, int64_t now_ns) {
  Close(now_ns);
  due_ns_ = std::max(due_ns_, now_ns + retry_after_ms_ * kMsNs);
  if (why.ok()) why = absl::UnavailableError("the connection ended");
  // Without a word of the server: nobody is there, or nobody answers.
  const bool nobody = absl::IsUnavailable(why) || absl::IsNotFound(why) || absl::IsDeadlineExceeded(why);
  refused_ = options_.wait_for_server && may_pass_.value_or(nobody) ? absl::OkStatus() : std::move(why);
}

void Link::Lost(int64_t now_ns) { Close(now_ns); }

void Link::Close(int64_t now_ns) {
  directory_.Disconnect();
  hello_.clear();
  connection_.reset();
  state_ = State::kDown;
  // A pause of b ms is drawn from (b / 2, b].
  const int64_t pause_ns = backoff_ms_ * kMsNs;
  due_ns_ = now_ns + (pause_ns == 0 ? 0 : pause_ns - static_cast<int64_t>(random_() % (pause_ns / 2)));
  const int64_t least_ms = std::max<int64_t>(1, options_.min_backoff_ms);
  backoff_ms_ = std::clamp(2 * backoff_ms_, least_ms, std::max(least_ms, options_.max_backoff_ms));
}

}  // namespace farlook::client
