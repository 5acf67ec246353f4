// A worker serves its clients; how they come and go: worker_clients.cc.
#include "server/worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace farlook::server {
namespace {

// Between looks at a connection whose send queue stays full: doubled from the
// first to the last while nothing moves. A transport may wake us earlier.
constexpr int64_t kMinRetryNs = 20'000;
constexpr int64_t kMaxRetryNs = 20'000'000;

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

}  // namespace farlook::server
