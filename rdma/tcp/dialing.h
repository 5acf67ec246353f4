// A client's way to a server, until one of its addresses has accepted the connection.
//
// The addresses are dialed side by side: the next one after kStaggerMs, or when all before have failed. The first one
// that is connected is used, and the others are given up; their servers see only a connection that ends.
#ifndef FARLOOK_RDMA_TCP_DIALING_H_
#define FARLOOK_RDMA_TCP_DIALING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/candidates.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::tcp {

// Thread safety: none.
class Dialing {
 public:
  // One address that is being dialed, or is connected.
  struct Attempt {
    SocketAddress to;
    UniqueFd socket;
    uint32_t watched = 0;  // for ConnectionHost::Watch()
  };

  Dialing(Candidates candidates, int64_t liveness_ms) : candidates_(std::move(candidates)), liveness_ms_(liveness_ms) {}

  // Continues; returns the connected attempt, or nothing yet. An error is final: none of the addresses answers.
  absl::StatusOr<std::optional<Attempt>> Step(int64_t now_ns);
  // The attempts under way, all of which wait to become writable.
  std::vector<Attempt>& attempts() { return attempts_; }
  // Returns the error to report when the time has expired.
  absl::Status TimedOut() const;
  // The same while a name or one of its addresses is awaited; otherwise OK.
  absl::Status Pending() const { return is_name() ? TimedOut() : absl::OkStatus(); }

  const std::string& shown() const { return candidates_.shown(); }
  bool is_name() const { return candidates_.is_name(); }

 private:
  absl::Status DialNext(int64_t now_ns);
  void Failed(const SocketAddress& to, int error);
  absl::Status NoServerAnswers() const;

  Candidates candidates_;
  const int64_t liveness_ms_;
  bool found_ = false;
  std::vector<Attempt> attempts_;
  int64_t next_ns_ = 0;  // when the next address is dialed although an earlier one may still answer
  int error_ = 0;        // of the last that failed
  bool refused_ = false;
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_DIALING_H_
