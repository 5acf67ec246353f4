#include "client/connection/dialer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kv/wire/handshake.h"

namespace farlook::client {
namespace {

// Returns "" if it is no address.
absl::string_view SchemeOf(absl::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == absl::string_view::npos || text.find(',', scheme) != absl::string_view::npos) return "";
  return text.substr(0, scheme);
}

}  // namespace

// A comma within a path is not followed by a scheme.
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

Dialer::Dialer(rdma::Endpoint* endpoint, absl::string_view addresses, const ClientOptions* options)
    : endpoint_(endpoint), options_(options), addresses_(SplitAddresses(addresses)), given_(addresses_.size()) {}

// ---- Attempts.

absl::StatusOr<std::unique_ptr<rdma::Connection>> Dialer::Connect(size_t address) {
  kv::ConnectData data;
  data.session = session_;
  if (options_->read_only) data.flags |= kv::ConnectData::kReadOnly;
  if (options_->as_operator) data.flags |= kv::ConnectData::kOperator;
  // One of several addresses does not get all of the time. A host that is cut off does not answer, and another member
  // that refused a moment ago may be the primary by now.
  int64_t timeout_ms = options_->timeout_ms;
  if (addresses_.size() > 1) timeout_ms = std::min(timeout_ms, options_->liveness_ms);
  return endpoint_->Connect(addresses_[address], data.Encode(), timeout_ms);
}

absl::Status Dialer::Dial(uint64_t session, bool beside, int64_t now_ns) {
  session_ = session;
  last_ = next_;
  auto connection = Connect(next_);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  if (beside) due_ns_ = now_ns + kBesideNs;
  return absl::OkStatus();
}

bool Dialer::IsInUse(size_t address) const {
  return address == next_ || std::any_of(others_.begin(), others_.end(),
                                         [address](const Attempt& other) { return other.address == address; });
}

// Returns the address to be tried next in this round; nothing if each was tried.
std::optional<size_t> Dialer::NextBeside() const {
  if (primary_.has_value() && !IsInUse(*primary_)) return primary_;
  const size_t tried = failures_ + 1 + others_.size();
  for (size_t i = 1; tried < addresses_.size() && i < addresses_.size(); ++i) {
    const size_t address = (last_ + i) % addresses_.size();
    if (!IsInUse(address)) return address;
  }
  return std::nullopt;
}

bool Dialer::DialBeside(int64_t now_ns) {
  due_ns_ = kNever;
  while (const std::optional<size_t> address = NextBeside()) {
    last_ = *address;
    primary_.reset();
    auto connection = Connect(*address);
    if (!connection.ok()) {
      CountFailures(1);
      continue;
    }
    others_.push_back({*std::move(connection), *address});
    due_ns_ = now_ns + kBesideNs;
    return true;
  }
  return false;
}

bool Dialer::TakeUp(const rdma::Connection* connection) {
  const auto found = std::find_if(others_.begin(), others_.end(),
                                  [connection](const Attempt& other) { return other.connection.get() == connection; });
  if (found == others_.end()) return false;
  std::swap(found->connection, connection_);
  std::swap(found->address, next_);
  return true;
}

bool Dialer::ContinueBeside(int64_t now_ns) {
  if (others_.empty()) return false;
  CountFailures(1);
  connection_ = std::move(others_.front().connection);
  next_ = others_.front().address;
  others_.erase(others_.begin());
  due_ns_ = now_ns;
  return true;
}

void Dialer::StopBeside() {
  CountFailures(others_.size());
  CloseOthers();
}

void Dialer::CloseOthers() {
  others_.clear();
  due_ns_ = kNever;
}

void Dialer::Close() {
  connection_.reset();
  CloseOthers();
}

// ---- Rounds and addresses.

// Counts failed attempts of this round.
void Dialer::CountFailures(size_t failures) {
  if (failures_ == 0) round_ = addresses_.size();
  failures_ += failures;
}

bool Dialer::Advance() {
  next_ = primary_.value_or((last_ + 1) % addresses_.size());
  primary_.reset();
  CountFailures(1);
  if (failures_ < round_) return true;
  failures_ = 0;
  return false;
}

std::optional<size_t> Dialer::Learn(absl::string_view address) {
  const auto found = std::find(addresses_.begin(), addresses_.end(), address);
  const auto index = static_cast<size_t>(found - addresses_.begin());
  if (found != addresses_.end()) return index;
  // An endpoint serves one transport.
  const absl::string_view scheme = SchemeOf(address);
  if (scheme.empty() || scheme != SchemeOf(addresses_[0])) return std::nullopt;
  if (index - given_ < kMostLearned) {
    addresses_.emplace_back(address);
    return index;
  }
  // Replaces the oldest learned address that no connection uses.
  for (size_t i = 0; i < kMostLearned; ++i) {
    forgotten_ = (forgotten_ + 1) % kMostLearned;
    if (IsInUse(given_ + forgotten_)) continue;
    addresses_[given_ + forgotten_] = std::string(address);
    return given_ + forgotten_;
  }
  return std::nullopt;
}

void Dialer::GoTo(absl::string_view address) {
  if (const std::optional<size_t> index = Learn(address); index.has_value()) next_ = *index;
}

}  // namespace farlook::client
