// A worker serves its clients. Requests that cannot be carried out at once: worker_waits.cc; values to pull, and what a
// send queue did not take: worker_turns.cc; how clients come and go: worker_clients.cc and worker_ends.cc; how a
// group's primary answers: worker_group.cc.
#include "server/worker.h"

#include <algorithm>
#include <utility>

#include "server/request_names.h"
#include "server/worker_apply.h"

namespace farlook::server {

Worker::Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake)
    : shared_(shared),
      number_(sessions.worker),
      admission_(shared, std::move(sessions)),
      executor_(shared, &stats_.lock_times),
      sweep_(shared, &stats_.lock_times),
      tidy_(shared, &stats_.lock_times),
      touches_(shared.table, shared.clock, &stats_),
      figures_(shared.figures_ms, &stats_),
      times_(shared.slow_ns, &stats_),
      mailbox_(wake),
      wake_(wake) {
  if (shared_.gate != nullptr) sleeper_ = shared_.gate->AddWorker(wake);
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
  if (sleeper_ != nullptr) [[unlikely]]
    sleeper_->Woke();
  size_t done = 0;
  due_ns_ = kNever;
  // What had arrived by then is seen below, however long this takes, or the process stands still in between.
  const bool timed = !silent_.empty() || (counter_links_ != nullptr && counter_links_->waits());
  const int64_t looked_ns = timed ? shared_.clock->NowNs() : 0;
  turn_bytes_ = 0;
  arrivals_rest_ = false;
  if (!mailbox_.empty()) done += AdmitInTurn();
  for (const Port& port : ports_) {
    const size_t n = port.endpoint->Poll(absl::MakeSpan(completions_));
    if (n == 0) continue;
    LookAtClock();
    came_alone_ = n == 1;
    HandleBatch(absl::MakeConstSpan(completions_.data(), n));
    came_alone_ = false;
    RingAll();
    stats_.lock_times.Sample();
    done += n;
  }
  if (shared_.users != nullptr && shared_.users->generation() != users_seen_) [[unlikely]]
    done += DropRevoked();
  if (shared_.roster != nullptr && shared_.roster->kicks() != kicks_seen_) [[unlikely]]
    done += DropKicked();
  if (shared_.gate != nullptr) [[unlikely]]
    done += PollGroup();
  if (!room_turns_.empty()) [[unlikely]] {
    if (done > 0) room_turns_.OthersServed();
    done += MakeRoom();
  }
  if (counter_links_ != nullptr && counter_links_->busy()) done += PollCounters(looked_ns);
  if (!pull_turns_.empty()) done += TakePullTurn();
  if (!stuck_.empty()) done += ContinueStuck();
  // Else the time for which it looked in vain could be taken for a hold's, where the thread is stopped in the next one.
  if (done == 0) stats_.lock_times.Sample();
  if (!silent_.empty()) {
    if (looked_ns >= silent_due_ns_) done += CloseSilent(looked_ns);
    due_ns_ = std::min(due_ns_, silent_due_ns_);
  }
  if (sweep_.wanted()) [[unlikely]] {
    if (done == 0) LookAtClock();
    if (sweep_.Poll(now_ns_)) tidy_.Noted();  // what was removed may have left the index something to do
    due_ns_ = std::min(due_ns_, sweep_.due_ns());
  }
  if (figures_.wanted()) [[unlikely]] {
    if (done == 0) LookAtClock();
    figures_.Poll(now_ns_);
    if (figures_.wanted()) due_ns_ = std::min(due_ns_, figures_.due_ns());
  }
  if (done == 0 && tidy_.wanted()) {
    LookAtClock();
    tidy_.Poll(now_ns_);
    due_ns_ = std::min(due_ns_, tidy_.due_ns());
  }
  if (drain_.begun() && AdvanceDrain(/*idle=*/done == 0)) ++done;
  return done;
}

bool Worker::Arm() {
  // All of them, so that each of their fds is good afterwards.
  bool armed = true;
  uint64_t message_bytes = 0;
  for (const Port& port : ports_) {
    armed = port.endpoint->Arm() && armed;
    message_bytes += port.endpoint->message_bytes();
  }
  stats_.message_bytes.Set(message_bytes);
  if (looks_due_ > 0 || !armed || (!mailbox_.empty() && !arrivals_rest_)) return false;
  if (shared_.gate != nullptr && !ArmInGroup()) return false;
  looks_due_ = stuck_.size();
  return true;
}

// --- Serving them ---

[[gnu::always_inline]] inline void Worker::Decode(absl::string_view message, Incoming* incoming) {
  absl::string_view key;
  // In a group no put is plain: each is a record first.
  incoming->is_plain = shared_.gate == nullptr && kv::PlainPut::Decode(message, &incoming->plain);
  if (incoming->is_plain) [[likely]] {
    incoming->has_key = true;
    key = incoming->plain.item.key;
  } else {
    incoming->status = kv::Request::Decode(message, &incoming->request);
    incoming->has_key = incoming->status.ok() && kv::HasKey(incoming->request.type);
    if (!incoming->has_key) return;
    key = incoming->request.key;
  }
  incoming->place.hash = shared_.table->HashOf(key);
  shared_.table->PrefetchBucket(&incoming->place);
}

[[gnu::always_inline]] inline void Worker::Apply(Link& link, absl::string_view message, Incoming& incoming) {
  if (link.closing) return;
  if (!link.welcome()) [[unlikely]] {
    const int64_t start_ns = shared_.clock->NowNs();
    Greet(link, message);
    return comings_.Took(start_ns, shared_.clock->NowNs());
  }
  if (incoming.is_plain) [[likely]] {
    if (PutPlainly(link, message, incoming)) [[likely]]
      return;
    incoming.status = kv::Request::Decode(message, &incoming.request);
  }
  ApplyRequest(link, message, incoming);
}

// Carries a plain put out where nothing is in its way, which is most of what a worker does. False: it was not begun.
[[gnu::always_inline]] inline bool Worker::PutPlainly(Link& link, absl::string_view message, const Incoming& incoming) {
  const kv::PlainPut& put = incoming.plain;
  Session& session = *link.session;
  if (session.said_goodbye() || session.read_only() || drain_.refuses_writes() || HasWaiting(link) ||
      ServerTime::IsOverAt(put.deadline_us, now_us_) || !session.IsNext(put.number)) [[unlikely]] {
    return false;
  }
  stats_.requests[static_cast<size_t>(kv::RequestType::kPut)].Add();
  link.entry->requests.Add();
  others_ns_ = now_ns_;
  if (times_.Due()) [[unlikely]]
    times_.Begin(put.number, kv::RequestType::kPut, now_ns_, &link.open);
  const kv::WriteResult result = executor_.Put(incoming.place, put.item, now_ns_);
  if (result.code >= kv::Code::kLater) [[unlikely]] {
    session.Begin(put.number, kv::RequestType::kPut);
    WaitForRoom(link, incoming.place.hash, message);
    return true;
  }
  tidy_.Noted();
  const Outcome outcome(result.code, result.version, result.slot);
  session.BeginAndFinish(put.number, kv::RequestType::kPut, outcome);
  AnswerHere(link, put.number, outcome, {});
  return true;
}

void Worker::ApplyRequest(Link& link, absl::string_view message, const Incoming& incoming) {
  if (!incoming.status.ok()) [[unlikely]]
    return TakeOther(link, message, incoming.status);
  const kv::Request& request = incoming.request;
  stats_.requests[static_cast<size_t>(request.type)].Add();
  link.entry->requests.Add();
  if (request.type != kv::RequestType::kPutPulled) others_ns_ = now_ns_;
  if (!kv::IsNumbered(request.type)) return ApplyUnnumbered(link, request);
  if (link.session->said_goodbye()) return DropAfterGoodbye(link);
  if (request.type == kv::RequestType::kGets) return ApplyGets(link, request);
  if (request.type == kv::RequestType::kPuts) return ApplyPuts(link, request);
  ApplyNumbered(link, request, incoming.place, message);
}

void Worker::DropAfterGoodbye(Link& link) { Drop(link, "a request after the goodbye"); }

void Worker::HandleBatch(absl::Span<const rdma::Completion> batch) {
  // One that is alone would wait for its bucket between the passes, and has nothing else to do meanwhile.
  if (batch.size() == 1 && batch[0].opcode == rdma::Opcode::kReceive) [[likely]] {
    const absl::string_view message(batch[0].message.data(), batch[0].message.size());
    Decode(message, &incoming_[0]);
    return Apply(Link::Of(*batch[0].connection), message, incoming_[0]);
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].opcode != rdma::Opcode::kReceive) continue;
    Decode({batch[i].message.data(), batch[i].message.size()}, &incoming_[i]);
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].opcode == rdma::Opcode::kReceive && incoming_[i].has_key) {
      shared_.table->PrefetchItem(&incoming_[i].place);
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
      case rdma::Opcode::kDisconnected: {
        const int64_t start_ns = shared_.clock->NowNs();
        OnDisconnected(link);
        comings_.Took(start_ns, shared_.clock->NowNs());
        break;
      }
      case rdma::Opcode::kConnected:
      case rdma::Opcode::kFetchAdd:
      case rdma::Opcode::kCompareSwap:
        break;  // never asked for
    }
  }
}

void Worker::Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  AnswerHere(link, number, outcome, payload);
}

Outcome Worker::Try(Link& link, const kv::Request& request, const kv::KeyPlace& place, bool may_step,
                    absl::string_view* payload) {
  return TryHere(request.type, link, request, place, may_step, payload);
}

bool Worker::Execute(Link& link, const kv::Request& request, uint64_t hash, absl::string_view message) {
  return ExecuteHere(request.type, link, request, {hash}, message);
}

void Worker::ApplyNumbered(Link& link, const kv::Request& request, const kv::KeyPlace& place,
                           absl::string_view message) {
  ApplyNumberedHere(request.type, link, request, place, message);
}

// It was claimed before, or never will be.
void Worker::AnswerKnown(Link& link, const kv::Request& request, uint64_t hash, Session::Claim claim) {
  switch (claim) {
    case Session::Claim::kExecute:
      return;  // not known
    case Session::Claim::kAnswered: {
      stats_.resent_requests.Add();
      const Outcome outcome = link.session->Remembered(request.number);
      if (outcome.code == kv::Code::kMoved) Moved(link, request.type, hash);
      if (shared_.gate != nullptr && IsWrite(request.type)) {
        return AnswerWrite(link, request.number, outcome, executor_.PayloadOf(request.type, outcome));
      }
      return Answer(link, request.number, outcome, executor_.PayloadOf(request.type, outcome));
    }
    case Session::Claim::kUnderWay:
      stats_.resent_requests.Add();
      if (!committing_.empty()) AskedAgain(link, request.number);
      return;
    case Session::Claim::kForgotten:
      return Answer(link, request.number, Outcome{kv::Code::kOutcomeUnknown});
    case Session::Claim::kImpossible:
      return Drop(link, "request number beyond the window, or used for another request");
  }
}

void Worker::ApplyUnnumbered(Link& link, const kv::Request& request) {
  if (request.type == kv::RequestType::kGoodbye) return link.session->SayGoodbye();
  if (request.type == kv::RequestType::kTouched) return TakeTouches(link, request);
  if (request.type == kv::RequestType::kFigures) return TakeFigures(link, request);
  if (counter_links_ == nullptr ||
      !counter_links_->Acknowledge(link, static_cast<uint64_t>(request.operands.operand))) {
    Drop(link, "an acknowledgement of deleted counters that it was not told of");
  }
}

void Worker::TakeTouches(Link& link, const kv::Request& request) {
  kv::TouchedLocations touched;
  if (!touches_.wanted()) return Drop(link, "told of gets, which it was not asked for");
  if (!kv::TouchedLocations::Decode(request.value, &touched)) return Drop(link, "malformed message: touched locations");
  touches_.Take(touched);
  // Best effort: who does not take in what it is told is told again when it tells the next time.
  if (touched.sample == touches_.sample() || !link.replies.empty()) return;
  const auto notice = kv::SampleNotice::Encode(touches_.sample());
  Send(link, {notice.data(), notice.size()}, {});
}

void Worker::TakeFigures(Link& link, const kv::Request& request) {
  kv::ClientFigures figures;
  if (figures_.interval_ms() == 0) return Drop(link, "told its figures, which it was not asked for");
  if (!kv::ClientFigures::Decode(request.value, &figures)) return Drop(link, "malformed message: a client's figures");
  if (link.told == nullptr) link.told = std::make_unique<ToldFigures>(link.welcome_ns);
  figures_.Take(figures, now_ns_, link.told.get());
  link.entry->gets_per_s.Set(link.told->gets_per_s);
  link.entry->get_p99_ns.Set(link.told->times.Quantile(0.99));
}

void Worker::EndTimed(const Link& link, OpenRequests::Request* request) {
  const int64_t now_ns = shared_.clock->NowNs();
  const int64_t since_ns = request->since_ns;
  uint64_t suppressed;
  if (!times_.End(request, now_ns) || !slow_log_.Allow(now_ns, &suppressed)) return;
  Log(LogLevel::kWarning, "slow request",
      {{"peer", link.connection->peer()},
       {"user", link.who.user.name},
       {"type", TypeName(request->type)},
       {"ms", (now_ns - since_ns) / 1'000'000},
       {"suppressed", suppressed}});
}

void Worker::SendLater(Link& link, absl::string_view head, absl::string_view payload) {
  // All replies, and one notice of each kind; before that, what it is told first.
  const size_t notices = (link.holder != 0 ? 1 : 0) + (touches_.wanted() ? 1 : 0);
  const size_t most = link.welcome() ? link.session->window() + notices : 1;
  if (!link.replies.Queue(head, payload, most)) {
    return Drop(link, "more requests without a reply than the window allows");
  }
  stats_.postponed_replies.Add();
  MarkStuck(link);
  Balance(link);
}

size_t Worker::PollCounters(int64_t looked_ns) {
  LookAtClock();
  const auto post = [this](Link& link, absl::string_view notice) { Send(link, notice, {}); };
  const auto late = [this](Link& link) {
    stats_.impatient_drops.Add();
    Drop(link, "did not acknowledge in time that counters were deleted");
  };
  const auto gone = [this](bool has_place) { has_place ? shared_.places->Give() : shared_.places->Gone(); };
  const size_t done = counter_links_->Poll(now_ns_, looked_ns, post, late, gone);
  stats_.clients_within_atomics.Set(counter_links_->within_atomics());
  due_ns_ = std::min(due_ns_, counter_links_->due_ns());
  RingAll();
  return done;
}

void Worker::RingAll() {
  for (Link* link : unrung_) {
    link->unrung = false;
    link->connection->Ring();
  }
  unrung_.clear();
}

}  // namespace farlook::server
