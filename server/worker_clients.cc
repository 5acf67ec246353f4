// How a worker's clients come and go; worker.cc serves them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/counter_value.h"
#include "server/worker.h"

namespace farlook::server {
namespace {

// How long a server that shuts down goes on executing what keeps arriving, and
// then lets replies reach their clients before it disconnects them.
constexpr int64_t kFinishNs = 50'000'000;
constexpr int64_t kLingerNs = 20'000'000;
constexpr int64_t kDrainPollNs = 1'000'000;

absl::string_view Clip(absl::string_view reason) { return reason.substr(0, rdma::kMaxRejectBytes); }

}  // namespace

// --- Letting clients in ---

void Worker::Admit(Arrival arrival) {
  if (phase_ != Phase::kServing) {
    return Reject(arrival, kShuttingDownReason);
  }
  if (arrival.hello.session != 0) {
    absl::string_view why;
    Session* session = sessions_.FindResumable(arrival.hello, now_ns_, &why);
    if (session != nullptr && session->connection != nullptr) {
      // In the place of a connection that may not know yet that it is dead.
      Link& old = *static_cast<Link*>(session->connection);
      if (old.successor.request != nullptr) {
        Reject(old.successor, "a later connection goes on with this session");
      }
      old.successor = std::move(arrival);
      Close(old);
      return;
    }
    if (session != nullptr) {
      return Open(std::move(arrival), session, /*resumed=*/true);
    }
    stats_.refused_resumptions.Add();
    Log(LogLevel::kDebug, "client gets a new session", {{"peer", arrival.request->peer()}, {"why", why}});
  }
  Open(std::move(arrival), nullptr, /*resumed=*/false);
}

void Worker::Reject(Arrival& arrival, absl::string_view reason) {
  uint64_t suppressed;
  if (reject_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", arrival.request->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  stats_.rejected.Add();
  arrival.request->Reject(Clip(reason));
  arrival.request.reset();
  load_.fetch_sub(1, std::memory_order_relaxed);
}

kv::Welcome Worker::WelcomeFor(const Arrival& arrival, const Session& session, bool resumed) const {
  const Port& port = ports_[static_cast<size_t>(arrival.port)];
  const rdma::RemoteRange table = arrival.request->Current(port.table);
  kv::Welcome welcome;
  if (resumed) welcome.flags |= kv::Welcome::kResumed;
  if (session.read_only()) welcome.flags |= kv::Welcome::kReadOnly;
  welcome.session = session.id();
  welcome.epoch = session.epoch();
  welcome.incarnation = shared_.incarnation;
  welcome.window = session.window();
  welcome.table = {table.address, table.bytes, table.rkey};
  if (!session.read_only() && port.cells.rkey != 0) {
    const rdma::RemoteRange cells = arrival.request->Current(port.cells);
    welcome.counters = {cells.address, cells.bytes, cells.rkey};
    welcome.atomics = kv::AtomicsOfEach(shared_.max_clients);
  }
  welcome.max_value_bytes = shared_.max_value_bytes;
  return welcome;
}

// Lets a client in, with its kept session, or a new one where that is null.
void Worker::Open(Arrival arrival, Session* session, bool resumed) {
  if (shared_.clients->fetch_add(1, std::memory_order_relaxed) >= shared_.max_clients) {
    shared_.clients->fetch_sub(1, std::memory_order_relaxed);
    if (resumed) sessions_.Detach(session, now_ns_);
    return Reject(arrival, absl::StrCat("the server has its limit of ", shared_.max_clients,
                                        " clients; close some, or raise --max_clients"));
  }
  if (resumed) {
    sessions_.Attach(session);
    session->Resume(arrival.hello);
  } else {
    session = sessions_.Create((arrival.hello.flags & kv::Hello::kReadOnly) != 0);
  }
  const Port& port = ports_[static_cast<size_t>(arrival.port)];
  const kv::Welcome welcome = WelcomeFor(arrival, *session, resumed);
  const bool counters = welcome.counters.rkey != 0;
  const std::array<uint32_t, 2> rkeys = {port.table.rkey, port.cells.rkey};
  auto connection =
      arrival.request->Accept(port.endpoint, welcome.Encode(), absl::MakeConstSpan(rkeys).first(counters ? 2 : 1));
  if (!connection.ok()) {
    shared_.clients->fetch_sub(1, std::memory_order_relaxed);
    load_.fetch_sub(1, std::memory_order_relaxed);
    resumed ? sessions_.Detach(session, now_ns_) : sessions_.Forget(session);
    uint64_t suppressed;
    if (reject_log_.Allow(now_ns_, &suppressed)) {
      Log(LogLevel::kWarning, "client could not be accepted",
          {{"reason", connection.status().message()}, {"suppressed", suppressed}});
    }
    return UpdateGauges();
  }
  auto link = std::make_unique<Link>();
  link->connection = *std::move(connection);
  link->connection->context = link.get();
  link->session = session;
  link->has_cells_key = counters;
  link->pulls =
      std::make_unique<PullQueue>(shared_.table, shared_.locks, shared_.clock, &stats_, link->connection.get());
  session->connection = link.get();
  Log(LogLevel::kDebug, "client connected",
      {{"peer", link->connection->peer()}, {"session", absl::Hex(session->id())}, {"epoch", session->epoch()}});
  links_.emplace(link.get(), std::move(link));
  stats_.accepted.Add();
  if (resumed) stats_.resumed.Add();
  UpdateGauges();
}

// --- Letting them go ---

void Worker::Drop(Link& link, absl::string_view reason) {
  if (link.closing) return;
  uint64_t suppressed;
  if (drop_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client dropped",
        {{"peer", link.connection->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  stats_.dropped.Add();
  Close(link);
}

// Ends a connection. What it had queued is discarded; its numbers that were
// claimed and not executed are released as its READs complete.
void Worker::Close(Link& link) {
  if (link.closing) return;
  link.closing = true;
  link.backlog.clear();
  link.pulls->Close();
  AnswerEndedPulls(link);
  link.connection->Disconnect();
}

void Worker::OnDisconnected(Link& link) {
  link.closing = true;
  link.backlog.clear();
  link.pulls->OnDisconnected();
  AnswerEndedPulls(link);
  Log(LogLevel::kDebug, "client disconnected",
      {{"peer", link.connection->peer()},
       {"session", absl::Hex(link.session->id())},
       {"reason", link.connection->status().message()}});
  Session* session = link.session;
  Arrival successor = std::move(link.successor);
  std::erase(unrung_, &link);
  std::erase(unfinished_, &link);
  link.pulls.reset();
  if (counter_links_ != nullptr) counter_links_->Closed(link, now_ns_);
  links_.erase(&link);  // destroys the queue pair: nothing of its can arrive
  shared_.clients->fetch_sub(1, std::memory_order_relaxed);
  load_.fetch_sub(1, std::memory_order_relaxed);
  if (successor.request == nullptr) {
    sessions_.Detach(session, now_ns_);
  } else if (phase_ != Phase::kServing) {
    sessions_.Detach(session, now_ns_);
    Reject(successor, kShuttingDownReason);
  } else {
    Open(std::move(successor), session, /*resumed=*/true);
  }
  UpdateGauges();
}

void Worker::UpdateGauges() {
  stats_.connections.Set(links_.size());
  stats_.sessions.Set(sessions_.size());
  stats_.kept_sessions.Set(sessions_.kept());
}

void Worker::BeginDrain(int64_t deadline_ns) {
  if (phase_ != Phase::kServing) return;
  phase_ = Phase::kFinishing;
  drain_deadline_ns_ = deadline_ns;
  phase_end_ns_ = std::min(deadline_ns, shared_.clock->NowNs() + kFinishNs);
}

// Returns whether anything moved.
bool Worker::AdvanceDrain(bool idle) {
  const Phase before = phase_;
  now_ns_ = shared_.clock->NowNs();
  due_ns_ = std::min(due_ns_, now_ns_ + kDrainPollNs);
  if (phase_ == Phase::kFinishing && (idle || now_ns_ >= phase_end_ns_)) {
    phase_ = Phase::kRefusing;
    phase_end_ns_ = now_ns_ + kLingerNs;
  }
  if (phase_ == Phase::kRefusing) {
    const bool finished = unfinished_.empty() && now_ns_ >= phase_end_ns_;
    if (links_.empty() || finished || now_ns_ >= drain_deadline_ns_) {
      phase_ = Phase::kDisconnecting;
      for (auto& [link, owned] : links_) Close(*link);
    }
  }
  return phase_ != before;
}

}  // namespace farlook::server
