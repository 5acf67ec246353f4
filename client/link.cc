#include "client/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::client {
namespace {

// How the bytes of a RejectData begin: the transport may have put its own words before them.
constexpr absl::string_view kMagicBytes = "FRLK";

constexpr int64_t kMsNs = 1'000'000;
// Of the addresses that servers tell, so many are believed.
constexpr size_t kMostLearned = 16;

// "" where it is no address.
absl::string_view SchemeOf(absl::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == absl::string_view::npos || text.find(',', scheme) != absl::string_view::npos) return "";
  return text.substr(0, scheme);
}

// A comma within a path is followed by no scheme.
std::vector<std::string> SplitAddresses(absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (!addresses.empty() && part.find("://") == absl::string_view::npos) {
      absl::StrAppend(&addresses.back(), ",", part);
    } else {
      addresses.emplace_back(part);
    }
  }
  return addresses;
}

}  // namespace

Link::Link(rdma::Endpoint* endpoint, absl::string_view address, const ClientOptions& options, LastTime* time,
           uint64_t random_seed)
    : endpoint_(endpoint),
      addresses_(SplitAddresses(address)),
      given_(addresses_.size()),
      options_(options),
      wait_for_server_(options.wait_for_server),
      random_(static_cast<std::minstd_rand::result_type>(random_seed)),
      directory_(endpoint, time),
      greeting_(&options_) {}

// The index of an address, which may be new; or nothing, where it is none for this client.
std::optional<size_t> Link::Learn(absl::string_view address) {
  const auto found = std::find(addresses_.begin(), addresses_.end(), address);
  const auto index = static_cast<size_t>(found - addresses_.begin());
  if (found != addresses_.end()) return index;
  // The endpoint is of one transport.
  const absl::string_view scheme = SchemeOf(address);
  if (scheme.empty() || scheme != SchemeOf(addresses_[0])) return std::nullopt;
  if (index - given_ < kMostLearned) {
    addresses_.emplace_back(address);
    return index;
  }
  // In the place of the one that was learnt first; but that may be where the connection leads.
  forgotten_ = (forgotten_ + 1) % kMostLearned;
  if (given_ + forgotten_ == next_) forgotten_ = (forgotten_ + 1) % kMostLearned;
  addresses_[given_ + forgotten_] = std::string(address);
  return given_ + forgotten_;
}

std::vector<std::string> Link::members() const { return SplitAddresses(welcome_.members); }

absl::Status Link::Dial(uint64_t session) {
  kv::ConnectData data;
  data.session = session;
  if (options_.read_only) data.flags |= kv::ConnectData::kReadOnly;
  if (options_.as_operator) data.flags |= kv::ConnectData::kOperator;
  may_pass_.reset();
  retry_after_ms_ = 0;
  auto connection = endpoint_->Connect(addresses_[next_], data.Encode(), options_.timeout_ms);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  state_ = State::kDialling;
  return absl::OkStatus();
}

absl::Status Link::OnConnected() {
  if (absl::Status status = greeting_.Connected(connection_.get()); !status.ok()) return status;
  state_ = State::kGreeting;
  return absl::OkStatus();
}

absl::Status Link::Greet(const kv::Hello& hello, int64_t now_ns) {
  hello_ns_ = now_ns;
  greeting_.SayHello(hello);
  if (!greeting_.asked()) {
    if (absl::Status status = LoadDirectory(); !status.ok()) return status;
  }
  Pump();
  return absl::OkStatus();
}

absl::Status Link::LoadDirectory() {
  if (directory_.loaded() && directory_.directory()->header().incarnation == greeting_.accept().incarnation) {
    directory_.Reconnect(connection_.get(), greeting_.table());
    return absl::OkStatus();
  }
  return directory_.Load(connection_.get(), greeting_.table());
}

void Link::Pump() {
  bool posted = greeting_.Post();
  posted |= directory_.Post();
  if (posted) connection_->Ring();
}

absl::Status Link::Turned(kv::RefusalCode code, absl::string_view text) {
  may_pass_ = kv::WorthTryingAgain(code);
  if (code == kv::RefusalCode::kNotPrimary) {
    is_group_ = true;
    named_ = Learn(text);
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
  for (const std::string& member : members()) Learn(member);
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

// Where the Welcome is there: ready, if the directory is too.
absl::Status Link::CheckDirectory() {
  if (!directory_.loaded() || directory_.busy()) return absl::OkStatus();
  const kv::RegionHeader& header = directory_.directory()->header();
  if (header.incarnation != greeting_.accept().incarnation) {
    return absl::FailedPreconditionError("the server's memory is of another incarnation than it says");
  }
  hasher_.emplace(header.hash_seed);
  state_ = State::kReady;
  reached_ = addresses_[next_];
  is_group_ = (greeting_.accept().flags & kv::AcceptData::kGroup) != 0;
  failures_ = 0;
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
  if (const std::optional<size_t> index = Learn(address); index.has_value()) next_ = *index;
  backoff_ms_ = 0;
}

void Link::LearnMembers(const std::vector<std::string>& members) {
  for (const std::string& member : members) Learn(member);
  if (state_ == State::kDown) GoTo(members.front());
}

void Link::Failed(absl::Status why, int64_t now_ns) {
  Close(now_ns);
  if (in_group()) {
    next_ = named_.value_or((next_ + 1) % addresses_.size());
    named_.reset();
    // Each once without a pause; then all of them again.
    if (failures_ == 0) round_ = addresses_.size();
    if (++failures_ < round_) {
      due_ns_ = now_ns;
    } else {
      failures_ = 0;
    }
  }
  due_ns_ = std::max(due_ns_, now_ns + retry_after_ms_ * kMsNs);
  if (why.ok()) why = absl::UnavailableError("the connection ended");
  // Without a word of the server: nobody is there, or nobody answers.
  const bool nobody = absl::IsUnavailable(why) || absl::IsNotFound(why) || absl::IsDeadlineExceeded(why);
  const bool waits = wait_for_server_ || in_group();
  refused_ = waits && may_pass_.value_or(nobody) ? absl::OkStatus() : std::move(why);
}

void Link::Lost(int64_t now_ns) { Close(now_ns); }

void Link::Close(int64_t now_ns) {
  directory_.Disconnect();
  greeting_.Lost();
  connection_.reset();
  state_ = State::kDown;
  // A pause of b ms is drawn from (b / 2, b].
  const int64_t pause_ns = backoff_ms_ * kMsNs;
  due_ns_ = now_ns + (pause_ns == 0 ? 0 : pause_ns - static_cast<int64_t>(random_() % (pause_ns / 2)));
  const int64_t least_ms = std::max<int64_t>(1, options_.min_backoff_ms);
  backoff_ms_ = std::clamp(2 * backoff_ms_, least_ms, std::max(least_ms, options_.max_backoff_ms));
}

}  // namespace farlook::client
