// Getting connected and staying so: one connection at a time, and when the next attempt may be made.
//
// When to try again (docs/operations.md tells users):
//   * A connection that broke after it had given an answer: at once.
//   * Otherwise after a pause that doubles from min_backoff_ms to max_backoff_ms, each shortened by up to a half at
//     random, so that many clients of one server do not come together.
//   * Only while an operation waits: an idle client makes no attempts.
//   * refused(): the last attempt was answered with no, or not at all. Until the next one is due nobody needs to wait.
#ifndef FARLOOK_CLIENT_CONNECTOR_H_
#define FARLOOK_CLIENT_CONNECTOR_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/options.h"
#include "kv/message.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The endpoint outlives it.
class Connector {
 public:
  enum class State : uint8_t {
    kDown,        // no connection
    kConnecting,  // an attempt is under way
    kUp,          // connected
  };

  Connector(rdma::Endpoint* endpoint, std::string address, const ClientOptions& options, uint64_t random_seed);

  State state() const { return state_; }
  // Null when kDown. For posting only while kUp.
  rdma::Connection* connection() const { return connection_.get(); }
  // Why the last attempt failed, or OK.
  const absl::Status& refused() const { return refused_; }
  // When the next attempt may be made. REQUIRES kDown.
  int64_t due_ns() const { return due_ns_; }

  // Begins an attempt. REQUIRES kDown. An error is final: the address makes no sense.
  absl::Status Begin(const kv::Hello& hello);

  // For the completion kConnected: what the server said. An error: it is no server of ours; call Failed() with it.
  absl::StatusOr<kv::Welcome> Connected();

  // The server answered something over this connection: if it breaks, try again at once.
  void Proven() { backoff_ms_ = 0; }

  // The attempt failed, or what it led to is of no use. Destroys the connection.
  void Failed(absl::Status why, int64_t now_ns);
  // A connection that had been of use broke. Destroys it: every posted buffer is free then.
  void Lost(int64_t now_ns);

 private:
  void Close(int64_t now_ns);

  rdma::Endpoint* const endpoint_;
  const std::string address_;
  const ClientOptions options_;
  std::minstd_rand random_;

  std::unique_ptr<rdma::Connection> connection_;
  State state_ = State::kDown;
  absl::Status refused_;
  int64_t backoff_ms_ = 0;  // the next pause; 0: none
  int64_t due_ns_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTOR_H_
