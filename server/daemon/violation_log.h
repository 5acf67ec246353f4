// Counts and logs peers that break a transport's protocol, during its lifetime: see rdma/violations.h. A process has
// one at a time; the last one created gets the reports.
//
// Thread safety: any thread may read the figures.
#ifndef FARLOOK_SERVER_DAEMON_VIOLATION_LOG_H_
#define FARLOOK_SERVER_DAEMON_VIOLATION_LOG_H_

#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "rdma/clock.h"
#include "rdma/violations.h"
#include "server/base/log.h"

namespace farlook::server {

class ViolationLog {
 public:
  // `clock` must outlive this.
  explicit ViolationLog(const rdma::Clock* clock);
  ~ViolationLog() { rdma::SetViolationObserver(nullptr); }
  ViolationLog(const ViolationLog&) = delete;
  ViolationLog& operator=(const ViolationLog&) = delete;

  // Number of refused handshakes, and of closed connections.
  uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }
  uint64_t clients() const { return clients_.load(std::memory_order_relaxed); }

 private:
  void Note(rdma::Violator who, absl::string_view peer, absl::string_view how);

  const rdma::Clock* const clock_;
  std::atomic<uint64_t> strangers_{0};
  std::atomic<uint64_t> clients_{0};
  RateLimit stranger_limit_, client_limit_;  // used by one call at a time
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_VIOLATION_LOG_H_
