// How a worker's clients come and go; worker.cc serves them.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/worker.h"

namespace farlook::server {
namespace {

// How long a client that is refused may take to read why and to go by itself.
constexpr int64_t kRefusalLingerNs = 100'000'000;

kv::ServerRange ToServerRange(const rdma::RemoteRange& range) { return {range.address, range.bytes, range.rkey}; }

kv::Refusal ShuttingDown() {
  kv::Refusal refusal;
  refusal.code = kv::RefusalCode::kShuttingDown;
  refusal.text = std::string(kShuttingDownReason);
  return refusal;
}

}  // namespace

// --- Letting clients in ---

// Accepts a connection, which is still silent.
void Worker::Admit(Arrival arrival) {
  if (drain_.begun()) return Reject(arrival, kv::RefusalCode::kShuttingDown, kShuttingDownReason);
  std::string why;
  if (!admission_.Enter(arrival.connect.session, &why)) return Reject(arrival, kv::RefusalCode::kFull, why);
  const Port& port = ports_[static_cast<size_t>(arrival.port)];
  const bool may_write = (arrival.connect.flags & kv::ConnectData::kReadOnly) == 0;
  const bool cells = may_write && port.cells.rkey != 0;
  kv::AcceptData accept;
  accept.version = arrival.connect.version();
  accept.incarnation = shared_.incarnation;
  accept.table = ToServerRange(arrival.request->Current(port.table));
  const kv::ServerRange counters = cells ? ToServerRange(arrival.request->Current(port.cells)) : kv::ServerRange{};
  const std::array<uint32_t, 2> rkeys = {port.table.rkey, port.cells.rkey};
  auto connection =
      arrival.request->Accept(port.endpoint, accept.Encode(), absl::MakeConstSpan(rkeys).first(cells ? 2 : 1));
  if (!connection.ok()) {
    admission_.Leave();
    load_.fetch_sub(1, std::memory_order_relaxed);
    uint64_t suppressed;
    if (reject_log_.Allow(now_ns_, &suppressed)) {
      Log(LogLevel::kWarning, "client could not be accepted",
          {{"reason", connection.status().message()}, {"suppressed", suppressed}});
    }
    return UpdateGauges();
  }
  auto link = std::make_unique<Link>(*std::move(connection));
  link->counters = counters;
  link->due_ns = now_ns_ + shared_.hello_timeout_ns;
  silent_.push_back(link.get());
  links_.emplace(link.get(), std::move(link));
  stats_.accepted.Add();
  UpdateGauges();
}

void Worker::Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason) {
  uint64_t suppressed;
  if (reject_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", arrival.request->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  stats_.rejected.Add();
  kv::RejectData data;
  data.code = code;
  data.text = std::string(reason);
  arrival.request->Reject(data.Encode(rdma::kMaxRejectBytes));
  arrival.request.reset();
  load_.fetch_sub(1, std::memory_order_relaxed);
}

// What a connection says before it is welcome.
void Worker::Greet(Link& link, absl::string_view message) {
  if (link.refused) return;
  if (link.predecessor != nullptr) return Drop(link, "spoke before it was welcome");
  if (!kv::IsFirstMessage(message, kv::FirstMessage::kHello)) return Drop(link, "another message before the hello");
  const absl::StatusOr<kv::Hello> hello = kv::Hello::Decode(message);
  if (!hello.ok()) {
    kv::Refusal refusal;
    refusal.code = kv::RefusalFor(hello.status());
    refusal.text = std::string(hello.status().message());
    return Refuse(link, std::move(refusal));
  }
  link.hello = *hello;
  Consider(link);
}

void Worker::Consider(Link& link) {
  if (drain_.begun()) return Refuse(link, ShuttingDown());
  Admission::Decision decision = admission_.Decide(link.hello, now_ns_);
  if (!decision.lost.empty()) {
    stats_.refused_resumptions.Add();
    Log(LogLevel::kDebug, "client gets a new session", {{"peer", link.connection->peer()}, {"why", decision.lost}});
  }
  if (decision.session == nullptr) return Refuse(link, std::move(decision.refusal));
  if (decision.must_wait) return WaitForPredecessor(link, *decision.session->link);
  Welcome(link, decision.session, decision.resumed);
}

// In the place of a connection that may not know yet that it is dead.
void Worker::WaitForPredecessor(Link& link, Link& old) {
  if (old.successor != nullptr) {
    old.successor->predecessor = nullptr;
    Drop(*old.successor, "a later connection goes on with its session");
  }
  old.successor = &link;
  link.predecessor = &old;
  std::erase(silent_, &link);
  Close(old);
}

void Worker::Welcome(Link& link, Session* session, bool resumed) {
  std::erase(silent_, &link);
  link.session = session;
  session->link = &link;
  link.pulls = std::make_unique<PullQueue>(shared_.table, shared_.locks, shared_.clock, shared_.time, &stats_,
                                           link.connection.get());
  const kv::Welcome welcome = admission_.WelcomeFor(*session, resumed, link.counters, now_ns_);
  link.has_cells_key = welcome.counters.rkey != 0;
  Send(link, welcome.Encode(), {});
  Log(LogLevel::kDebug, "client connected",
      {{"peer", link.connection->peer()}, {"session", absl::Hex(session->id())}, {"epoch", session->epoch()}});
  if (resumed) stats_.resumed.Add();
  UpdateGauges();
}

// Tells it why, and leaves it some time to read that.
void Worker::Refuse(Link& link, kv::Refusal refusal) {
  uint64_t suppressed;
  if (reject_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client refused",
        {{"peer", link.connection->peer()}, {"reason", refusal.text}, {"suppressed", suppressed}});
  }
  stats_.refused.Add();
  Send(link, refusal.Encode(), {});
  link.refused = true;
  link.due_ns = now_ns_ + kRefusalLingerNs;
  std::erase(silent_, &link);
  silent_.push_back(&link);
}

// Closes those who had their time; returns how many.
size_t Worker::CloseSilent(int64_t looked_ns) {
  now_ns_ = shared_.clock->NowNs();
  std::vector<Link*> late;
  for (Link* link : silent_) {
    if (link->due_ns <= looked_ns) {
      late.push_back(link);
    } else {
      due_ns_ = std::min(due_ns_, link->due_ns);
    }
  }
  for (Link* link : late) {
    std::erase(silent_, link);
    if (link->refused) {
      Close(*link);
      continue;
    }
    stats_.silent_drops.Add();
    Drop(*link, "said no hello in time");
  }
  return late.size();
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

// Ends a connection. What it had queued is discarded; its numbers that were claimed and not executed are released,
// those of pulls as their READs complete.
void Worker::Close(Link& link) {
  if (link.closing) return;
  link.closing = true;
  std::erase(silent_, &link);
  Discard(link);
  link.connection->Disconnect();
}

void Worker::Discard(Link& link) {
  link.replies.Clear();
  if (!link.welcome()) return;
  for (const uint64_t number : link.held.Clear()) link.session->Release(number);
  for (const uint64_t number : link.room.Clear()) link.session->Release(number);
  link.pulls->Close();
  AnswerEndedPulls(link);
  room_turns_.Remove(&link);
}

void Worker::OnDisconnected(Link& link) {
  link.closing = true;
  Discard(link);
  Log(LogLevel::kDebug, "client disconnected",
      {{"peer", link.connection->peer()},
       {"session", absl::Hex(link.welcome() ? link.session->id() : 0)},
       {"reason", link.connection->status().message()}});
  Session* const session = link.session;
  Link* const successor = link.successor;
  if (session != nullptr) {
    link.pulls->OnDisconnected();
    AnswerEndedPulls(link);
    link.pulls.reset();
  }
  if (link.predecessor != nullptr) link.predecessor->successor = nullptr;
  std::erase(unrung_, &link);
  std::erase(unfinished_, &link);
  room_turns_.Remove(&link);
  std::erase(silent_, &link);
  if (counter_links_ != nullptr) counter_links_->Closed(link, now_ns_);
  links_.erase(&link);  // destroys the queue pair: nothing of its can arrive
  admission_.Leave();
  load_.fetch_sub(1, std::memory_order_relaxed);
  if (session != nullptr) Part(session, successor);
  UpdateGauges();
}

// The session goes on over the successor, if there is one.
void Worker::Part(Session* session, Link* successor) {
  const bool over = session->said_goodbye();
  session->link = nullptr;
  if (successor != nullptr && !over) {
    successor->predecessor = nullptr;
    Consider(*successor);
  }
  if (session->link == nullptr) admission_.Ended(session, now_ns_);
  if (successor != nullptr && over) {
    successor->predecessor = nullptr;
    successor->hello.session = 0;  // what was bidden goodbye is not gone on with
    Consider(*successor);
  }
}

void Worker::UpdateGauges() {
  stats_.connections.Set(links_.size());
  stats_.waiting_for_room.Set(room_turns_.size());
  stats_.sessions.Set(admission_.sessions().size());
  stats_.kept_sessions.Set(admission_.sessions().kept());
}

// Returns whether anything moved.
bool Worker::AdvanceDrain(bool idle) {
  now_ns_ = shared_.clock->NowNs();
  due_ns_ = std::min(due_ns_, now_ns_ + Drain::kPollNs);
  const bool changed = drain_.Advance(now_ns_, {idle, !links_.empty(), !unfinished_.empty() || !room_turns_.empty()});
  if (changed && drain_.disconnects()) {
    for (auto& [link, owned] : links_) Close(*link);
  }
  return changed;
}

}  // namespace farlook::server
