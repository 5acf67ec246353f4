// A worker serves its clients; how they come and go: worker_clients.cc.
#include "server/worker.h"

#include <algorithm>
#include <utility>

namespace farlook::server {
namespace {

// Between looks at a connection whose send queue stays full: doubled from the
// first to the last while nothing moves. A transport may wake us earlier.
constexpr int64_t kMinRetryNs = 20'000;
constexpr int64_t kMaxRetryNs = 20'000'000;

}  // namespace

Worker::Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake)
    : shared_(shared),
      admission_(shared, std::move(sessions)),
      executor_(shared, &stats_.lock_times),
      sweep_(shared, &stats_.lock_times),
      mailbox_(wake) {
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
  // What had arrived by then is seen below, however long this takes, or the process stands still in between.
  const int64_t looked_ns = silent_.empty() ? 0 : shared_.clock->NowNs();
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
    stats_.lock_times.Sample();
    done += n;
  }
  if (!room_turns_.empty()) [[unlikely]] {
    if (done > 0) room_turns_.OthersServed();
    done += MakeRoom();
  }
  if (counter_links_ != nullptr && counter_links_->busy()) done += PollCounters();
  if (!unfinished_.empty()) done += ContinueUnfinished();
  if (!silent_.empty()) done += CloseSilent(looked_ns);
  if (sweep_.wanted()) [[unlikely]] {
    if (done == 0) now_ns_ = shared_.clock->NowNs();
    sweep_.Poll(now_ns_);
    due_ns_ = std::min(due_ns_, sweep_.due_ns());
  }
  if (drain_.begun() && AdvanceDrain(/*idle=*/done == 0)) ++done;
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
    Link& link = Link::Of(*batch[i].connection);
    switch (batch[i].opcode) {
      case rdma::Opcode::kReceive:
        Apply(link, {batch[i].message.data(), batch[i].message.size()}, incoming_[i]);
        break;
      case rdma::Opcode::kRead:
        if (link.pulls == nullptr) break;  // before it is welcome nothing is read
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
  if (!kv::HasKey(request.type)) return;
  incoming->hash = shared_.table->HashOf(request.key);
  incoming->hashed = true;
  shared_.table->PrefetchBucket(incoming->hash);
}

void Worker::Apply(Link& link, absl::string_view message, const Incoming& incoming) {
  if (link.closing) return;
  if (!link.welcome()) [[unlikely]]
    return Greet(link, message);
  if (!incoming.request.ok()) return Drop(link, incoming.request.status().message());
  const kv::Request& request = *incoming.request;
  stats_.requests[static_cast<size_t>(request.type)].Add();
  if (!kv::IsNumbered(request.type)) [[unlikely]]
    return ApplyUnnumbered(link, request);
  if (link.session->said_goodbye()) return Drop(link, "a request after the goodbye");
  switch (link.session->Begin(request.number, request.type)) {
    case Session::Claim::kExecute:
      return ExecuteInOrder(link, request, incoming.hash, message);
    case Session::Claim::kAnswered: {
      stats_.resent_requests.Add();
      const Outcome outcome = link.session->Remembered(request.number);
      return Answer(link, request.number, outcome, executor_.PayloadOf(request.type, outcome));
    }
    case Session::Claim::kUnderWay:
      stats_.resent_requests.Add();
      return;
    case Session::Claim::kForgotten:
      return Answer(link, request.number, Outcome{kv::Code::kOutcomeUnknown});
    case Session::Claim::kImpossible:
      return Drop(link, "request number beyond the window, or used for another request");
  }
}

void Worker::ApplyUnnumbered(Link& link, const kv::Request& request) {
  if (request.type == kv::RequestType::kGoodbye) return link.session->SayGoodbye();
  if (counter_links_ == nullptr ||
      !counter_links_->Acknowledge(link, static_cast<uint64_t>(request.operands.operand))) {
    Drop(link, "an acknowledgement of deleted counters that it was not told of");
  }
}

void Worker::ExecuteInOrder(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message) {
  if ((!link.pulls->idle() || !link.room.empty()) && IsWrite(request.type) &&
      (link.pulls->Has(hash) || link.room.Has(hash) || link.held.Has(hash))) {
    stats_.held_writes.Add();
    return link.held.Add(request.number, hash, message);
  }
  Execute(link, request, hash, message);
}

void Worker::Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message) {
  absl::string_view payload;
  const Outcome outcome = Try(link, request, hash, /*may_step=*/false, &payload);
  if (outcome.code == kv::Code::kMakingRoom) [[unlikely]] {
    if (request.type == kv::RequestType::kPutPulled) return MarkUnfinished(link);  // its PullQueue answers
    stats_.waits_for_room.Add();
    link.room.Add(request.number, hash, now_ns_, message);
    return room_turns_.Add(&link);
  }
  if (request.option.has_ttl) [[unlikely]]
    sweep_.Noted();
  link.session->Finish(request.number, outcome);
  Answer(link, request.number, outcome, payload);
}

// Carries a request out, unless that must wait: then it says kMakingRoom.
Outcome Worker::Try(Link& link, const kv::Request& request, uint64_t hash, bool may_step, absl::string_view* payload) {
  const kv::Code code = executor_.Admit(request, {link.session->read_only(), drain_.refuses_writes()}, now_ns_);
  if (code != kv::Code::kOk) return Outcome(code);
  if (request.type == kv::RequestType::kPutPulled) {
    link.pulls->Add(request, hash);
    return Outcome(kv::Code::kMakingRoom);
  }
  // A connection that may use cells is known before it is told one.
  if (kv::IsCounterRequest(request.type) && link.has_cells_key && counter_links_ != nullptr) {
    counter_links_->Enroll(link);
  }
  return executor_.Execute(request, hash, /*tell_cell=*/link.holder != 0, now_ns_, payload, may_step);
}

void Worker::Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  if (link.closing) return;
  stats_.replies[static_cast<size_t>(outcome.code)].Add();
  kv::Reply reply;
  reply.code = outcome.code;
  reply.number = number;
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.time_us = shared_.time.At(now_ns_);
  reply.payload = payload;
  char head[kv::Reply::kHeaderBytes];
  reply.EncodeHead(head);
  Send(link, {head, sizeof head}, payload);
}

// In order with all that was sent before.
void Worker::Send(Link& link, absl::string_view head, absl::string_view payload) {
  if (link.closing) return;
  // All replies, and one notice; before that, what it is told first.
  const size_t most = link.welcome() ? link.session->window() + (link.holder != 0 ? 1 : 0) : 1;
  switch (link.replies.Send(head, payload, most)) {
    case ReplyQueue::Sent::kPosted:
      return WantRing(link);
    case ReplyQueue::Sent::kQueued:
      stats_.postponed_replies.Add();
      return MarkUnfinished(link);
    case ReplyQueue::Sent::kTooMany:
      return Drop(link, "more requests without a reply than the window allows");
  }
}

void Worker::AnswerEndedPulls(Link& link) {
  if (link.pulls->wants_room()) room_turns_.Add(&link);
  if (!link.pulls->has_ended()) return;
  for (const PullQueue::Ended& ended : link.pulls->TakeEnded()) {
    if (ended.cut) {
      link.session->Release(ended.number);
      // Alone it would leave its client without an answer for ever.
      if (!link.closing) Drop(link, "a value could not be read from the client");
    } else {
      sweep_.Noted();  // it may have had a ttl
      link.session->Finish(ended.number, ended.outcome);
      Answer(link, ended.number, ended.outcome);
    }
  }
  ContinueHeld(link);
}

void Worker::ContinueHeld(Link& link) {
  const auto busy = [&link](uint64_t hash) { return link.pulls->Has(hash) || link.room.Has(hash); };
  HeldWrites::Held held;
  while (!link.closing && link.held.TakeReady(busy, &held)) {
    const absl::StatusOr<kv::Request> request = kv::Request::Decode(held.message);
    if (request.ok()) Execute(link, *request, held.hash, held.message);  // it was when it came
  }
}

// One step for one connection, if it is time.
size_t Worker::MakeRoom() {
  now_ns_ = shared_.clock->NowNs();
  stats_.waiting_for_room.Set(room_turns_.size());
  Link* const link = room_turns_.Take(now_ns_);
  if (link == nullptr) {
    due_ns_ = std::min(due_ns_, room_turns_.due_ns());
    return 0;
  }
  stats_.lock_times.Sample();
  TakeRoomTurn(*link);
  if (!link->room.empty() || link->pulls->wants_room()) room_turns_.Add(link);
  room_turns_.Took(now_ns_, shared_.clock->NowNs());
  stats_.room_steps.Add();
  stats_.waiting_for_room.Set(room_turns_.size());
  RingAll();
  return 1;
}

void Worker::TakeRoomTurn(Link& link) {
  link.room_turn_is_pulls = !link.room_turn_is_pulls;
  if (link.room.empty() || (link.room_turn_is_pulls && link.pulls->wants_room())) {
    link.pulls->MakeRoom();
    MarkUnfinished(link);
    return AnswerEndedPulls(link);
  }
  const RoomQueue::Waiting& waiting = link.room.front();
  const absl::StatusOr<kv::Request> request = kv::Request::Decode(waiting.message);  // as it was when it came
  absl::string_view payload;
  Outcome outcome = Try(link, *request, waiting.hash, /*may_step=*/true, &payload);
  const int64_t waited_ns = now_ns_ - waiting.since_ns;
  if (outcome.code == kv::Code::kMakingRoom) {
    if (waited_ns < kLongestRoomWaitNs) return;
    outcome.code = kv::Code::kNoMemory;
  }
  stats_.NoteRoomWait(waited_ns);
  const uint64_t number = waiting.number;
  link.room.PopFront();  // before the answer, which may close the connection and release what waits
  sweep_.Noted();        // it may have had a ttl
  link.session->Finish(number, outcome);
  Answer(link, number, outcome, payload);
  ContinueHeld(link);
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
    if (link.replies.empty() && (link.pulls == nullptr || link.pulls->idle())) {
      link.unfinished = false;
      continue;
    }
    if (!link.replies.empty() || link.pulls->wants_post()) stuck = true;
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
  bool progress = link.replies.Continue();
  if (link.pulls != nullptr) {
    if (link.pulls->Post()) progress = true;
    AnswerEndedPulls(link);
  }
  if (progress) WantRing(link);
  return progress;
}

void Worker::WantRing(Link& link) {
  if (link.unrung) return;
  link.unrung = true;
  unrung_.push_back(&link);
}

void Worker::RingAll() {
  for (Link* link : unrung_) {
    link->unrung = false;
    link->connection->Ring();
  }
  unrung_.clear();
}

}  // namespace farlook::server
