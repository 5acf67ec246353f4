#include "server/worker/worker.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "server/worker/request_apply.h"

namespace farlook::server {

Worker::Worker(const Shared& shared, SessionOptions sessions, std::function<void()> wake)
    : context_(shared, sessions.worker, this),
      admission_(shared, std::move(sessions)),
      outbox_(&context_),
      group_(&context_, &outbox_, &admission_, wake),
      counter_links_(shared.counters == nullptr
                         ? nullptr
                         : std::make_unique<CounterLinks>(shared.counters, wake, shared.counter_patience_ns)),
      requests_(&context_, &outbox_, &group_, counter_links_.get()),
      door_(&context_, &outbox_, &admission_, std::move(wake)) {}

Worker::~Worker() = default;

// --- Turns ---

size_t Worker::Poll() {
  group_.Woke();
  size_t done = 0;
  context_.due_ns = kNever;
  // Messages that had arrived by then are handled below, however long this takes, or the process is stopped meanwhile.
  const bool timed = door_.has_silent() || (counter_links_ != nullptr && counter_links_->waits());
  const int64_t looked_ns = timed ? context_.shared.clock->NowNs() : 0;
  const int64_t alone_ns = requests_.has_pull_turns()
                               ? kNever
                               : requests_.others_ns() + RequestHandler::kOthersNs;  // unless requests arrive
  requests_.BeginTurn();
  done += door_.AdmitInTurn(alone_ns);
  for (const Door::Port& port : door_.ports()) {
    const size_t n = port.endpoint->Poll(absl::MakeSpan(completions_));
    if (n == 0) continue;
    context_.ReadClock();
    outbox_.SetAlone(n == 1);
    HandleBatch(absl::MakeConstSpan(completions_.data(), n));
    outbox_.SetAlone(false);
    outbox_.RingAll();
    context_.stats.lock_times.Sample();
    done += n;
  }
  done += door_.DropUnwanted();
  size_t own = 0;  // not caused by a client: it does not make the worker busy
  if (context_.shared.gate != nullptr) [[unlikely]]
    own = group_.Poll([this](Link& link) { requests_.TryAgain(link); });
  if (!requests_.room_turns().empty()) [[unlikely]]
    own += requests_.MakeRoom(/*others_served=*/done + own > 0);
  if (counter_links_ != nullptr && counter_links_->busy()) done += PollCounters(looked_ns);
  if (requests_.has_pull_turns()) done += requests_.TakePullTurn();
  if (outbox_.has_stuck()) {
    done += outbox_.Continue([this](Link& link) {
      if (link.pulls != nullptr && link.pulls->wants_turn()) requests_.WantPullTurn(link);
    });
  }
  // Otherwise the time of polls that find nothing could count as that of a lock, if the thread is stopped while it
  // holds one.
  if (done + own == 0) context_.stats.lock_times.Sample();
  done += door_.CloseSilent(looked_ns);
  const size_t swept = context_.sweep.wanted() ? PollSweep(/*idle=*/done == 0) : 0;
  done += own;
  PollHousekeeping(/*idle=*/done == 0);
  if (context_.drain.begun() && AdvanceDrain(/*idle=*/done == 0)) ++done;
  return done + swept;
}

size_t Worker::PollCounters(int64_t looked_ns) {
  context_.ReadClock();
  const auto post = [this](Link& link, absl::string_view notice) { outbox_.Send(link, notice, {}); };
  const auto late = [this](Link& link) {
    context_.stats.impatient_drops.Add();
    Drop(link, "did not acknowledge deleted counters in time");
  };
  ConnectionQuota& quota = *context_.shared.quota;
  const auto gone = [&quota](bool has_place) { has_place ? quota.Give() : quota.Gone(); };
  const size_t done = counter_links_->Poll(context_.now_ns, looked_ns, post, late, gone);
  context_.stats.clients_within_atomics.Set(counter_links_->within_atomics());
  context_.WakeBy(counter_links_->due_ns());
  outbox_.RingAll();
  return done;
}

// Makes one step of the sweep, if it is due. `idle`: no client had anything to do.
[[gnu::noinline]] size_t Worker::PollSweep(bool idle) {
  if (idle) context_.ReadClock();
  const int64_t idle_ns = requests_.others_ns() + kIdleAfterNs;
  const bool did = context_.sweep.Poll(context_.now_ns, idle && context_.now_ns >= idle_ns);
  if (did) context_.tidy.Noted();  // removed items may have left the index something to do
  context_.WakeBy(std::max(context_.sweep.due_ns(), idle_ns));
  return did ? 1 : 0;
}

// Drops old figures of clients; if the worker is `idle`, also makes a step of tidying the index.
inline void Worker::PollHousekeeping(bool idle) {
  if (context_.figures.wanted()) [[unlikely]] {
    if (idle) context_.ReadClock();
    context_.figures.Poll(context_.now_ns);
    if (context_.figures.wanted()) context_.WakeBy(context_.figures.due_ns());
  }
  if (idle && context_.tidy.wanted()) {
    context_.ReadClock();
    context_.tidy.Poll(context_.now_ns);
    context_.WakeBy(context_.tidy.due_ns());
  }
}

bool Worker::Arm() {
  // Another worker may be too busy for the sweep.
  if (context_.shared.workers > 1 && !context_.sweep.wanted() &&
      context_.sweep.IsLate(context_.shared.clock->NowNs())) {
    context_.sweep.Noted();
    return false;
  }
  // Arms all of them, so that each fd is valid for waiting afterwards.
  bool armed = true;
  uint64_t message_bytes = 0;
  for (const Door::Port& port : door_.ports()) {
    armed = port.endpoint->Arm() && armed;
    message_bytes += port.endpoint->message_bytes();
  }
  context_.stats.message_bytes.Set(message_bytes);
  if (outbox_.looks_due() || !armed || door_.HasArrivals()) return false;
  if (context_.shared.gate != nullptr && !group_.Arm()) return false;
  outbox_.PrepareSleep();
  return true;
}

// --- Batches ---

[[gnu::always_inline]] inline void Worker::Decode(absl::string_view message, Incoming* incoming) {
  absl::string_view key;
  // In a group no put is plain: each is a record first.
  incoming->is_plain = context_.shared.gate == nullptr && kv::PlainPut::Decode(message, &incoming->plain);
  if (incoming->is_plain) [[likely]] {
    incoming->has_key = true;
    key = incoming->plain.item.key;
  } else {
    incoming->status = kv::Request::Decode(message, &incoming->request);
    incoming->has_key = incoming->status.ok() && kv::HasKey(incoming->request.type);
    if (!incoming->has_key) return;
    key = incoming->request.key;
  }
  incoming->place.hash = context_.shared.table->HashOf(key);
  context_.shared.table->PrefetchBucket(&incoming->place);
}

[[gnu::always_inline]] inline void Worker::Apply(Link& link, absl::string_view message, Incoming& incoming) {
  if (link.closing) return;
  if (!link.welcome()) [[unlikely]] {
    const int64_t start_ns = context_.shared.clock->NowNs();
    if (!door_.Greet(link, message)) {
      OnOther(link, message, absl::InvalidArgumentError("a request over a connection that only watches the epoch"));
    }
    return door_.Took(start_ns);
  }
  if (incoming.is_plain) [[likely]] {
    if (requests_.PutPlainly(link, message, incoming.plain, incoming.place)) [[likely]]
      return;
    incoming.status = kv::Request::Decode(message, &incoming.request);
  }
  if (!incoming.status.ok()) [[unlikely]]
    return OnOther(link, message, incoming.status);
  requests_.Apply(link, message, incoming.request, incoming.place);
}

// A message that is no request: a backup's, or the client breaks the protocol.
void Worker::OnOther(Link& link, absl::string_view message, const absl::Status& status) {
  std::optional<kv::Refusal> refusal = group_.feeds().OnMessage(link, message, status);
  if (refusal.has_value()) door_.Refuse(link, *std::move(refusal));
}

void Worker::HandleBatch(absl::Span<const rdma::Completion> batch) {
  // A message that is alone would wait for its bucket between the passes, and has nothing else to do meanwhile.
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
      context_.shared.table->PrefetchItem(&incoming_[i].place);
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    Link& link = Link::Of(*batch[i].connection);
    switch (batch[i].opcode) {
      case rdma::Opcode::kReceive:
        Apply(link, {batch[i].message.data(), batch[i].message.size()}, incoming_[i]);
        break;
      case rdma::Opcode::kRead:
        requests_.OnRead(link, batch[i]);
        break;
      case rdma::Opcode::kDisconnected: {
        const int64_t start_ns = context_.shared.clock->NowNs();
        OnDisconnected(link);
        door_.Took(start_ns);
        break;
      }
      case rdma::Opcode::kConnected:
      case rdma::Opcode::kFetchAdd:
      case rdma::Opcode::kCompareSwap:
        break;  // a worker posts none of these
    }
  }
}

// --- Ends ---

void Worker::Drop(Link& link, absl::string_view reason) {
  if (link.closing) return;
  uint64_t suppressed;
  if (drop_log_.Allow(context_.now_ns, &suppressed)) {
    Log(LogLevel::kWarning, "client dropped",
        {{"peer", link.connection->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  context_.stats.dropped.Add();
  Close(link);
}

void Worker::Close(Link& link) {
  if (link.closing) return;
  link.closing = true;
  link.entry->Set(ConnectionList::State::kClosing);
  door_.StopWaiting(link);
  requests_.Discard(link);
  link.connection->Disconnect();
}

void Worker::OnDisconnected(Link& link) {
  link.closing = true;
  door_.StopWaiting(link);
  requests_.Discard(link);
  Log(LogLevel::kDebug, "client disconnected",
      {{"peer", link.connection->peer()},
       {"session", absl::Hex(link.welcome() ? link.session->id() : 0)},
       {"reason", link.connection->status().message()}});
  Session* const session = link.session;
  Link* const successor = link.successor;
  requests_.Remove(link);
  outbox_.Remove(link);
  if (context_.shared.gate != nullptr) group_.Remove(link);
  if (link.stats_report != nullptr) context_.figures.Forget(link.stats_report.get());
  // A client that may still be within an atomic keeps its place.
  door_.Destroy(&link, counter_links_ == nullptr || counter_links_->Closed(link, context_.now_ns));
  if (session != nullptr) {
    const uint64_t id = session->id();
    door_.Part(session, successor);  // may end it
    if (context_.shared.gate != nullptr && admission_.FindSession(id) == nullptr) group_.ForgetSession(id);
  }
  if (context_.shared.client_gone) context_.shared.client_gone();
  door_.UpdateGauges();
  if (counter_links_ != nullptr) context_.stats.clients_within_atomics.Set(counter_links_->within_atomics());
  context_.stats.waiting_for_room.Set(requests_.room_turns().size());
}

// Returns whether replies or pulls are under way.
bool Worker::Unfinished() const {
  if (group_.has_committing() || !requests_.room_turns().empty()) return true;
  return std::any_of(door_.links().begin(), door_.links().end(), [](const auto& entry) {
    const Link& link = *entry.second;
    return !link.replies.empty() || (link.pulls != nullptr && !link.pulls->idle());
  });
}

// Returns whether the drain made progress.
bool Worker::AdvanceDrain(bool idle) {
  context_.ReadClock();
  context_.WakeBy(context_.now_ns + Drain::kPollNs);
  const bool changed = context_.drain.Advance(context_.now_ns, {idle, !door_.links().empty(), Unfinished()});
  if (changed && context_.drain.disconnects()) {
    for (const auto& [link, owned] : door_.links()) Close(*link);
  }
  return changed;
}

}  // namespace farlook::server
