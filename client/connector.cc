#include "client/connector.h"

#include <algorithm>
#include <utility>

namespace farlook::client {

Connector::Connector(rdma::Endpoint* endpoint, std::string address, const ClientOptions& options, uint64_t random_seed)
    : endpoint_(endpoint),
      address_(std::move(address)),
      options_(options),
      random_(static_cast<std::minstd_rand::result_type>(random_seed)) {}

absl::Status Connector::Begin(const kv::Hello& hello) {
  auto connection = endpoint_->Connect(address_, hello.Encode(), options_.timeout_ms);
  if (!connection.ok()) return connection.status();
  connection_ = *std::move(connection);
  state_ = State::kConnecting;
  return absl::OkStatus();
}

absl::StatusOr<kv::Welcome> Connector::Connected() {
  auto welcome = kv::Welcome::Decode(connection_->welcome());
  if (!welcome.ok()) return welcome.status();
  state_ = State::kUp;
  refused_ = absl::OkStatus();
  return welcome;
}

void Connector::Failed(absl::Status why, int64_t now_ns) {
  Close(now_ns);
  refused_ = why.ok() ? absl::UnavailableError("the connection ended") : std::move(why);
}

void Connector::Lost(int64_t now_ns) { Close(now_ns); }

void Connector::Close(int64_t now_ns) {
  connection_.reset();
  state_ = State::kDown;
  // A pause of b ms is drawn from (b / 2, b].
  const int64_t pause_ns = backoff_ms_ * 1'000'000;
  due_ns_ = now_ns + (pause_ns == 0 ? 0 : pause_ns - static_cast<int64_t>(random_() % (pause_ns / 2)));
  const int64_t least_ms = std::max<int64_t>(1, options_.min_backoff_ms);
  backoff_ms_ = std::clamp(2 * backoff_ms_, least_ms, std::max(least_ms, options_.max_backoff_ms));
}

}  // namespace farlook::client
