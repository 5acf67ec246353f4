#include "server/acceptor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/session.h"

namespace farlook::server {

Acceptor::Acceptor(uint64_t incarnation, std::vector<rdma::Listener*> listeners, std::vector<Worker*> workers,
                   const rdma::Clock* clock)
    : incarnation_(incarnation),
      listeners_(std::move(listeners)),
      workers_(std::move(workers)),
      clock_(clock),
      away_(listeners_.size()) {}

size_t Acceptor::Poll() {
  size_t taken = 0;
  for (size_t port = 0; port < listeners_.size(); ++port) {
    for (size_t i = 0; i < kMaxRequestsPerPoll; ++i) {
      auto request = listeners_[port]->Next();
      if (request == nullptr) break;
      Route(std::move(request), static_cast<int>(port));
      ++taken;
    }
    LogChange(port);
  }
  return taken;
}

void Acceptor::LogChange(size_t port) {
  const absl::Status status = listeners_[port]->status();
  if (status.ok() != away_[port]) return;
  away_[port] = !status.ok();
  const std::string address = listeners_[port]->address();
  if (status.ok()) {
    Log(LogLevel::kInfo, "listening again", {{"address", address}});
  } else {
    Log(LogLevel::kWarning, "no client can come until this is over",
        {{"address", address}, {"reason", status.message()}});
  }
}

void Acceptor::Route(std::unique_ptr<rdma::ConnectionRequest> request, int port) {
  const absl::StatusOr<kv::Hello> hello = kv::Hello::Decode(request->hello());
  if (!hello.ok()) return Reject(*request, hello.status().message());
  if (shutdown_.load(std::memory_order_relaxed)) {
    return Reject(*request, kShuttingDownReason);
  }
  WorkerFor(*hello)->Deliver({std::move(request), *hello, port});
}

Worker* Acceptor::WorkerFor(const kv::Hello& hello) const {
  if (hello.session != 0 && hello.incarnation == incarnation_) {
    const auto owner = static_cast<size_t>(SessionTable::OwnerOf(hello.session));
    if (owner < workers_.size()) return workers_[owner];
  }
  return *std::min_element(workers_.begin(), workers_.end(),
                           [](const Worker* a, const Worker* b) { return a->load() < b->load(); });
}

void Acceptor::Reject(rdma::ConnectionRequest& request, absl::string_view reason) {
  rejected_.Add();
  uint64_t suppressed;
  if (log_limit_.Allow(clock_->NowNs(), &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", request.peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  request.Reject(reason.substr(0, rdma::kMaxRejectBytes));
}

}  // namespace farlook::server
