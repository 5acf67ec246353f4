#include "server/daemon/violation_log.h"

namespace farlook::server {

ViolationLog::ViolationLog(const rdma::Clock* clock) : clock_(clock) {
  rdma::SetViolationObserver(
      [this](rdma::Violator who, absl::string_view peer, absl::string_view how) { Note(who, peer, how); });
}

void ViolationLog::Note(rdma::Violator who, absl::string_view peer, absl::string_view how) {
  const bool stranger = who == rdma::Violator::kStranger;
  (stranger ? strangers_ : clients_).fetch_add(1, std::memory_order_relaxed);
  uint64_t suppressed;
  if (!(stranger ? stranger_limit_ : client_limit_).Allow(clock_->NowNs(), &suppressed)) return;
  Log(LogLevel::kWarning, stranger ? "client rejected" : "client dropped",
      {{"peer", peer},
       {"reason", absl::StrCat("breaks the protocol of the transport: ", how)},
       {"suppressed", suppressed}});
}

}  // namespace farlook::server
