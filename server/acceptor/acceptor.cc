#include "server/acceptor/acceptor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/session/session.h"

namespace farlook::server {

Acceptor::Acceptor(std::vector<rdma::Listener*> listeners, const rdma::Clock* clock,
                   std::function<std::string()> why_not_yet)
    : listeners_(std::move(listeners)), why_not_yet_(std::move(why_not_yet)), clock_(clock), away_(listeners_.size()) {}

size_t Acceptor::Poll() {
  size_t taken = 0;
  for (size_t port = 0; port < listeners_.size(); ++port) {
    listeners_[port]->CleanUp();
    for (size_t i = 0; i < kMaxRequestsPerPoll && !crowded(); ++i) {
      auto request = listeners_[port]->Next();
      if (request == nullptr) break;
      Route(std::move(request), static_cast<int>(port));
      ++taken;
    }
    LogChange(port);
  }
  return taken;
}

bool Acceptor::crowded() const {
  size_t waiting = 0;
  for (const Worker* worker : workers_) waiting += worker->waiting();
  return !workers_.empty() && waiting >= kMaxWaiting * workers_.size();
}

void Acceptor::LogChange(size_t port) {
  const absl::Status status = listeners_[port]->status();
  if (status.ok() != away_[port]) return;
  away_[port] = !status.ok();
  const std::string address = listeners_[port]->address();
  if (status.ok()) {
    Log(LogLevel::kInfo, "listening again", {{"address", address}});
  } else {
    Log(LogLevel::kWarning, "no client can connect until this is resolved",
        {{"address", address}, {"reason", status.message()}});
  }
}

void Acceptor::Route(std::unique_ptr<rdma::ConnectionRequest> request, int port) {
  const absl::StatusOr<kv::ConnectData> connect = kv::ConnectData::Decode(request->hello());
  if (!connect.ok()) return Reject(*request, kv::RefusalFor(connect.status()), connect.status().message());
  if (shutdown_.load(std::memory_order_relaxed)) {
    return Reject(*request, kv::RefusalCode::kShuttingDown, kShuttingDownReason);
  }
  if (workers_.empty()) {
    return Reject(*request, kv::RefusalCode::kShuttingDown,
                  why_not_yet_ == nullptr ? "the server is starting; try again" : why_not_yet_());
  }
  request->Prepare();  // here, because no requests wait for this thread
  WorkerFor(*connect)->Deliver({std::move(request), *connect, port});
}

// A session of another server also selects the worker of its number, which is as good as any.
Worker* Acceptor::WorkerFor(const kv::ConnectData& connect) const {
  if (connect.session != 0) {
    const auto owner = static_cast<size_t>(SessionTable::OwnerOf(connect.session));
    if (owner < workers_.size()) return workers_[owner];
  }
  return *std::min_element(workers_.begin(), workers_.end(),
                           [](const Worker* a, const Worker* b) { return a->load() < b->load(); });
}

void Acceptor::Reject(rdma::ConnectionRequest& request, kv::RefusalCode code, absl::string_view reason) {
  rejected_.Add();
  uint64_t suppressed = 0;
  if (workers_.empty() && code == kv::RefusalCode::kShuttingDown) {
    // A client that waits for a starting server retries again and again, which is normal.
    Log(LogLevel::kDebug, "client rejected", {{"peer", request.peer()}, {"reason", reason}});
  } else if (log_limit_.Allow(clock_->NowNs(), &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", request.peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  kv::RejectData data;
  data.code = code;
  data.text = std::string(reason);
  request.Reject(data.Encode(rdma::kMaxRejectBytes));
}

}  // namespace farlook::server
