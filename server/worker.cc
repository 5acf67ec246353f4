#include "server/worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kv/counter_value.h"

namespace farlook::server {
namespace {

// Between looks at a connection whose send queue stays full: doubled from the
// first to the last while nothing moves. A transport may wake us earlier.
constexpr int64_t kMinRetryNs = 20'000;
constexpr int64_t kMaxRetryNs = 20'000'000;

// How long a server that shuts down goes on executing what keeps arriving, and
// then lets replies reach their clients before it disconnects them.
constexpr int64_t kFinishNs = 50'000'000;
constexpr int64_t kLingerNs = 20'000'000;
constexpr int64_t kDrainPollNs = 1'000'000;

absl::string_view Clip(absl::string_view reason) { return reason.substr(0, rdma::kMaxRejectBytes); }

}  // namespace

Worker::Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake)
    : shared_(shared), sessions_(std::move(sessions)), mailbox_(wake) {
  if (shared_.counters == nullptr) return;
  counter_links_ = std::make_unique<CounterLinks>(shared_.counters, std::move(wake), shared_.counter_patience_ns);
}

Worker::~Worker() = default;

void Worker::AddPort(rdma::Endpoint* endpoint, const rdma::RemoteRange& table, const rdma::RemoteRange& cells) {
  ports_.push_back({endpoint, table, cells});
}

void Worker::Deliver(Arrival arrival) {
  load_.fetch_add(1, std::memory_order_relaxed);
  mailbox_.Put(std::move(arrival));
}

size_t Worker::Poll() {
  size_t done = 0;
  due_ns_ = kNever;
  if (!mailbox_.empty()) {
    now_ns_ = shared_.clock->NowNs();
    for (Arrival& arrival : mailbox_.Take()) {
      Admit(std::move(arrival));
      ++done;
    }
  }
  for (const Port& port : ports_) {
    const size_t n = port.endpoint->Poll(absl::MakeSpan(completions_));
    if (n == 0) continue;
    now_ns_ = shared_.clock->NowNs();
    HandleBatch(absl::MakeConstSpan(completions_.data(), n));
    RingAll();
    done += n;
  }
  if (counter_links_ != nullptr && counter_links_->busy()) done += PollCounters();
  if (!unfinished_.empty()) done += ContinueUnfinished();
  if (phase_ != Phase::kServing && AdvanceDrain(/*idle=*/done == 0)) ++done;
  return done;
}

bool Worker::Arm() {
  // All of them, so that each of their fds is good afterwards.
  bool armed = true;
  for (const Port& port : ports_) armed = port.endpoint->Arm() && armed;
  return armed && mailbox_.empty();
}

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
  const rdma::RemoteRange& table = ports_[static_cast<size_t>(arrival.port)].table;
  kv::Welcome welcome;
  if (resumed) welcome.flags |= kv::Welcome::kResumed;
  if (session.read_only()) welcome.flags |= kv::Welcome::kReadOnly;
  welcome.session = session.id();
  welcome.epoch = session.epoch();
  welcome.incarnation = shared_.incarnation;
  welcome.window = session.window();
  welcome.table = {table.address, table.bytes, table.rkey};
  const rdma::RemoteRange& cells = ports_[static_cast<size_t>(arrival.port)].cells;
  if (!session.read_only() && cells.rkey != 0) {
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
  const std::array<uint32_t, 2> rkeys = {welcome.table.rkey, welcome.counters.rkey};
  auto connection = arrival.request->Accept(port.endpoint, welcome.Encode(),
                                            absl::MakeConstSpan(rkeys).first(welcome.counters.rkey != 0 ? 2 : 1));
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
  link->has_cells_key = welcome.counters.rkey != 0;
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

// --- Serving them ---

void Worker::HandleBatch(absl::Span<const rdma::Completion> batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].opcode != rdma::Opcode::kReceive) continue;
    Decode({batch[i].message.data(), batch[i].message.size()}, &incoming_[i]);
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].opcode == rdma::Opcode::kReceive && incoming_[i].hashed) {
      shared_.table->PrefetchItem(incoming_[i].hash);
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    Link& link = *static_cast<Link*>(batch[i].connection->context);
    switch (batch[i].opcode) {
      case rdma::Opcode::kReceive:
        Apply(link, incoming_[i]);
        break;
      case rdma::Opcode::kRead:
        link.pulls->OnRead(batch[i]);
        AnswerEndedPulls(link);
        break;
      case rdma::Opcode::kDisconnected:
        OnDisconnected(link);
        break;
      case rdma::Opcode::kConnected:
      case rdma::Opcode::kFetchAdd:
      case rdma::Opcode::kCompareSwap:
        break;  // never asked for
    }
  }
}

void Worker::Decode(absl::string_view message, Incoming* incoming) {
  incoming->request = kv::Request::Decode(message);
  incoming->hashed = false;
  if (!incoming->request.ok()) return;
  const kv::Request& request = *incoming->request;
  if (request.type == kv::RequestType::kPing || request.type == kv::RequestType::kStat ||
      request.type == kv::RequestType::kCellsDropped) {
    return;
  }
  incoming->hash = shared_.table->HashOf(request.key);
  incoming->hashed = true;
  shared_.table->PrefetchBucket(incoming->hash);
}

void Worker::Apply(Link& link, const Incoming& incoming) {
  if (link.closing) return;
  if (!incoming.request.ok()) return Drop(link, incoming.request.status().message());
  const kv::Request& request = *incoming.request;
  stats_.requests[static_cast<size_t>(request.type)].Add();
  if (request.type == kv::RequestType::kCellsDropped) [[unlikely]] {
    if (counter_links_ == nullptr || !counter_links_->Acknowledge(link, static_cast<uint64_t>(request.operand))) {
      Drop(link, "an acknowledgement of deleted counters that it was not told of");
    }
    return;
  }
  switch (link.session->Begin(request.number, request.type)) {
    case Session::Claim::kExecute:
      return Execute(link, request, incoming.hash);
    case Session::Claim::kAnswered:
      stats_.resent_requests.Add();
      return AnswerFromMemory(link, request);
    case Session::Claim::kUnderWay:
      stats_.resent_requests.Add();
      return;
    case Session::Claim::kForgotten:
      return Answer(link, request.number, Outcome{kv::Code::kOutcomeUnknown, 0, {}});
    case Session::Claim::kImpossible:
      return Drop(link, "request number beyond the window, or used for another request");
  }
}

void Worker::Execute(Link& link, const kv::Request& request, uint64_t hash) {
  Outcome outcome;
  absl::string_view payload;
  if (IsWrite(request.type) && link.session->read_only()) {
    outcome.code = kv::Code::kReadOnly;
  } else if (IsWrite(request.type) && phase_ >= Phase::kRefusing) {
    outcome.code = kv::Code::kShuttingDown;
  } else {
    switch (request.type) {
      case kv::RequestType::kPutPulled:
        link.pulls->Add(request, hash);
        return MarkUnfinished(link);
      case kv::RequestType::kPut:
      case kv::RequestType::kDelete:
        outcome = Write(request, hash);
        break;
      case kv::RequestType::kGet:
        outcome = Get(request, hash, &payload);
        break;
      case kv::RequestType::kPing:
        break;
      case kv::RequestType::kStat:
        stat_ = shared_.stat(request.key);
        payload = absl::string_view(stat_).substr(0, kv::kMaxReplyPayloadBytes);
        break;
      case kv::RequestType::kCounterCreate:
      case kv::RequestType::kCounterAdd:
      case kv::RequestType::kCounterSwap:
      case kv::RequestType::kCounterRead:
      case kv::RequestType::kCounterDelete:
        outcome = ExecuteCounter(link, request, hash);
        break;
      case kv::RequestType::kCellsDropped:
        break;  // answered before it gets here
    }
  }
  link.session->Finish(request.number, outcome);
  Answer(link, request.number, outcome, payload);
}

// Where several workers write a partition, a time that was read before the lock was had may lie before another's split.
// See "Retired segments" in docs/design-notes.md.
int64_t Worker::TableNowNs() const { return shared_.table->partitions() > 1 ? shared_.clock->NowNs() : now_ns_; }

Outcome Worker::Write(const kv::Request& request, uint64_t hash) {
  kv::WriteResult result;
  absl::MutexLock lock(shared_.locks->of(hash));
  const int64_t now_ns = TableNowNs();
  if (request.type == kv::RequestType::kPut) {
    result = shared_.table->Put(hash, request.key, request.value, request.condition, request.version, now_ns);
  } else {
    result = shared_.table->Delete(hash, request.key, request.condition, request.version, now_ns);
  }
  return {result.code, result.version, result.slot};
}

Outcome Worker::Get(const kv::Request& request, uint64_t hash, absl::string_view* payload) {
  kv::ItemView item;
  absl::MutexLock lock(shared_.locks->of(hash));
  const kv::WriteResult result = shared_.table->Get(hash, request.key, &item);
  if (result.code == kv::Code::kOk) {
    if (item.flags != static_cast<uint16_t>(kv::ItemKind::kValue)) {
      return {kv::Code::kWrongKind, 0, {}};
    }
    // Copied while the lock keeps it from being freed.
    if (item.value.size() <= value_.size()) {
      std::memcpy(value_.data(), item.value.data(), item.value.size());
      *payload = {value_.data(), item.value.size()};
    }
  }
  return {result.code, result.version, result.slot};
}

Outcome Worker::ExecuteCounter(Link& link, const kv::Request& request, uint64_t hash) {
  if (shared_.counters == nullptr) return {kv::Code::kNoMemory, 0, {}};
  // Before it is told a cell.
  if (link.has_cells_key && !link.closing) counter_links_->Enroll(link);
  return shared_.counters->Execute(request, hash, /*tell_cell=*/link.holder != 0);
}

void Worker::AnswerFromMemory(Link& link, const kv::Request& request) {
  Outcome outcome = link.session->Remembered(request.number);
  // The cell may be another counter's by now, and this connection was not told it.
  if (kv::IsCounterRequest(request.type)) outcome.slot = kv::Slot();
  Answer(link, request.number, outcome);
}

void Worker::Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  if (link.closing) return;
  stats_.replies[static_cast<size_t>(outcome.code)].Add();
  kv::Reply reply;
  reply.code = outcome.code;
  reply.number = number;
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.payload = payload;
  char head[kv::Reply::kHeaderBytes];
  reply.EncodeHead(head);
  Send(link, {head, sizeof head}, payload);
}

// In order with all that was sent before.
void Worker::Send(Link& link, absl::string_view head, absl::string_view payload) {
  if (link.closing) return;
  if (link.backlog.empty() && link.connection->PostSend(head, payload)) {
    if (!link.unrung) {
      link.unrung = true;
      unrung_.push_back(&link);
    }
    return;
  }
  // All replies, and one notice.
  if (link.backlog.size() >= link.session->window() + (link.holder != 0 ? 1 : 0)) {
    return Drop(link, "more requests without a reply than the window allows");
  }
  stats_.postponed_replies.Add();
  link.backlog.push_back(absl::StrCat(head, payload));
  MarkUnfinished(link);
}

void Worker::AnswerEndedPulls(Link& link) {
  if (!link.pulls->has_ended()) return;
  for (const PullQueue::Ended& ended : link.pulls->TakeEnded()) {
    if (ended.cut) {
      link.session->Release(ended.number);
      // Alone it would leave its client without an answer for ever.
      if (!link.closing) Drop(link, "a value could not be read from the client");
    } else {
      link.session->Finish(ended.number, ended.outcome);
      Answer(link, ended.number, ended.outcome);
    }
  }
}

size_t Worker::PollCounters() {
  now_ns_ = shared_.clock->NowNs();
  const auto post = [this](Link& link, absl::string_view notice) { Send(link, notice, {}); };
  const auto late = [this](Link& link) {
    stats_.impatient_drops.Add();
    Drop(link, "did not acknowledge in time that counters were deleted");
  };
  const size_t done = counter_links_->Poll(now_ns_, post, late);
  due_ns_ = std::min(due_ns_, counter_links_->due_ns());
  RingAll();
  return done;
}

// --- Loose ends ---

void Worker::MarkUnfinished(Link& link) {
  if (link.unfinished) return;
  link.unfinished = true;
  unfinished_.push_back(&link);
}

size_t Worker::ContinueUnfinished() {
  now_ns_ = shared_.clock->NowNs();
  size_t progress = 0;
  bool stuck = false;
  size_t kept = 0;
  // By index, as an answer may mark another link.
  for (size_t i = 0; i < unfinished_.size(); ++i) {
    Link& link = *unfinished_[i];
    if (Continue(link)) ++progress;
    if (link.backlog.empty() && link.pulls->idle()) {
      link.unfinished = false;
      continue;
    }
    if (!link.backlog.empty() || link.pulls->wants_post()) stuck = true;
    unfinished_[kept++] = &link;
  }
  unfinished_.resize(kept);
  RingAll();
  retry_ns_ = progress > 0 ? kMinRetryNs : std::clamp(2 * retry_ns_, kMinRetryNs, kMaxRetryNs);
  if (stuck) due_ns_ = std::min(due_ns_, now_ns_ + retry_ns_);
  return progress;
}

// Returns whether anything moved.
bool Worker::Continue(Link& link) {
  bool progress = false;
  while (!link.backlog.empty() && link.connection->PostSend(link.backlog.front(), {})) {
    link.backlog.pop_front();
    progress = true;
  }
  if (link.pulls->Post()) progress = true;
  AnswerEndedPulls(link);
  if (progress && !link.unrung) {
    link.unrung = true;
    unrung_.push_back(&link);
  }
  return progress;
}

void Worker::RingAll() {
  for (Link* link : unrung_) {
    link->unrung = false;
    link->connection->Ring();
  }
  unrung_.clear();
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
