// A backup's connection to its primary: it says from where on it follows, hands batches to the Backup, and tells what
// that accepted. The other end: feed.h.
//
// Driven by Poll(); no thread, no clock, no wait. It connects once: who owns it dials again, with another one.
//
// Thread safety: none.
#ifndef FARLOOK_SERVER_FOLLOWER_H_
#define FARLOOK_SERVER_FOLLOWER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/handshake.h"
#include "rdma/transport.h"
#include "server/backup.h"

namespace farlook::server {

class Follower {
 public:
  // `me` is this replica's incarnation. All outlive it.
  Follower(rdma::Endpoint* endpoint, Backup* backup, uint64_t me, uint64_t epoch)
      : endpoint_(endpoint), backup_(backup), me_(me), epoch_(epoch) {}
  ~Follower() = default;
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Begins to connect. REQUIRES that it is called once.
  absl::Status Dial(absl::string_view address, int64_t timeout_ms);

  // Takes what came, and tells what was accepted. Returns how many things it did.
  size_t Poll();

  // The primary has let it in.
  bool follows() const { return follows_; }
  // The connection is over, or never was; status() says why.
  bool over() const { return over_; }
  // What ended it: of Backup::Take(), which says whether to connect again helps; of the primary, if it refused it; or
  // of the transport.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kBatch = 64;

  void OnMessage(absl::string_view message);
  void OnAnswer(absl::string_view message);
  void Fail(absl::Status status);
  bool TellAccepted();

  rdma::Endpoint* const endpoint_;
  Backup* const backup_;
  const uint64_t me_, epoch_;
  std::unique_ptr<rdma::Connection> connection_;
  std::string to_send_;  // its first message, until the transport takes it
  std::string batch_;    // of which the first bytes came
  uint64_t told_ = 0;    // accepted up to this
  bool follows_ = false;
  bool over_ = false;
  absl::Status status_;
  std::array<rdma::Completion, kBatch> completions_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_FOLLOWER_H_
