#include "server/worker/group_desk.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kv/wire/cluster_map.h"

namespace farlook::server {

GroupDesk::GroupDesk(WorkerContext* context, Outbox* outbox, Admission* admission, std::function<void()> wake)
    : context_(*context),
      outbox_(*outbox),
      admission_(*admission),
      feeds_(context, outbox),
      wake_(std::move(wake)),
      sleeper_(context->shared.gate != nullptr ? context->shared.gate->notifier()->AddWorker(wake_) : nullptr) {}

// --- Requests ---

Outcome GroupDesk::Try(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                       absl::string_view* payload) {
  CommitGate& gate = *context_.shared.gate;
  if (IsOfAnotherGroup(request, hash) || ComesAfterMoved(link, request, hash)) return Moved(link, request.type, hash);
  if (IsWrite(request.type) && !takes_writes()) return Outcome(kv::Code::kBusy);
  if (IsWrite(request.type) && !link.group.is_introduced) {
    if (!gate.Introduce(*link.session)) return Outcome(kv::Code::kBusy);
    link.group.is_introduced = true;
  }
  if (request.type == kv::RequestType::kPutPulled) {
    link.pulls->Add(request, hash);
    return Outcome(kv::Code::kLater);
  }
  if (request.type == kv::RequestType::kPing || request.type == kv::RequestType::kStat) {
    return context_.executor.Execute(request.type, request, {hash}, /*with_cell=*/false, context_.now_ns, payload);
  }
  CommitGate::Begun begun = Begin(link, request, hash, may_step, payload);
  // Its item has expired, and may be removed meanwhile. Each time it is, another item was written and expired.
  while (begun.outcome.code == kv::Code::kTimeIsOver) {
    if (gate.Expire(hash, request.key)) return Outcome(kv::Code::kBusy);
    begun = Begin(link, request, hash, may_step, payload);
  }
  if (begun.outcome.code == kv::Code::kMoved) return Moved(link, request.type, hash);
  if (begun.sequence == 0) return begun.outcome;
  AwaitCommit(link, request.number, hash, begun, *payload);
  return Outcome(kv::Code::kLater);
}

// Returns whether the key lies in a slot that another group of the cluster has. Then no record is made.
bool GroupDesk::IsOfAnotherGroup(const kv::Request& request, uint64_t hash) const {
  const Serving* const serving = context_.shared.serving;
  return serving != nullptr && kv::HasKey(request.type) && !serving->Owns(kv::ClusterSlotOf(hash));
}

bool GroupDesk::ComesAfterMoved(const Link& link, const kv::Request& request, uint64_t hash) {
  return link.group.moved != nullptr && IsWrite(request.type) && (*link.group.moved)[kv::ClusterSlotOf(hash)];
}

Outcome GroupDesk::Moved(Link& link, kv::RequestType type, uint64_t hash) {
  if (IsWrite(type)) {
    if (link.group.moved == nullptr) link.group.moved = std::make_unique<kv::SlotSet>();
    link.group.moved->set(kv::ClusterSlotOf(hash));
  }
  return Outcome(kv::Code::kMoved);
}

void GroupDesk::TakeFlags(Link& link, const kv::Request& request, uint64_t hash) {
  if (context_.shared.serving == nullptr || !IsWrite(request.type)) return;
  if ((request.flags & kv::Request::kOnlyAsked) != 0) {
    Moved(link, request.type, hash);
  } else if (link.group.moved != nullptr) {
    link.group.moved->reset(kv::ClusterSlotOf(hash));
  }
}

CommitGate::Begun GroupDesk::Begin(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                                   absl::string_view* payload) {
  CommitGate& gate = *context_.shared.gate;
  Executor& executor = context_.executor;
  const CommitGate::Asker asker{link.session->id(), request.number};
  CommitGate::Begun begun;
  if (request.type == kv::RequestType::kCounterRead) {
    begun = gate.ReadCounter(request, hash, &context_.stats.lock_times);
  } else if (IsWrite(request.type)) {
    begun = gate.Begin(request, hash, asker, may_step, &context_.stats.lock_times);
    // From now on nothing changes the item before this touch does.
    if (request.type == kv::RequestType::kGetAndTouch && begun.is_write) {
      executor.Execute(request.type, request, {hash}, /*with_cell=*/false, context_.now_ns, payload);
    }
  } else {
    const Outcome read = executor.Execute(request.type, request, {hash}, /*with_cell=*/false, context_.now_ns, payload);
    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} : gate.Confirm(read);
  }
  if (kv::IsCounterRequest(request.type)) *payload = executor.PayloadOf(request.type, begun.outcome);
  return begun;
}

void GroupDesk::AwaitCommit(Link& link, uint64_t number, uint64_t hash, const CommitGate::Begun& begun,
                            absl::string_view payload) {
  committing_.push_back({begun, hash, link.session->id(), number, &link, std::string(payload)});
  link.group.committing_bytes += committing_.back().bytes();
  turn_seen_ = 0;  // it may be committed already
}

void GroupDesk::Reattach(Link& link, uint64_t number) {
  for (Committing& one : committing_) {
    if (one.number != number || one.session != link.session->id() || one.link != nullptr) continue;
    one.link = &link;
    link.group.committing_bytes += one.bytes();
  }
  outbox_.Balance(link);
}

void GroupDesk::AnswerWrite(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  if (takes_writes()) return outbox_.Answer(link, number, outcome, payload);
  if (link.closing || !link.group.withheld.insert(number).second) return;
  withheld_.push_back({&link, number, outcome, std::string(payload)});
  link.group.withheld_bytes += withheld_.back().bytes();
  outbox_.Balance(link);
}

// --- Progress ---

bool GroupDesk::Arm() {
  uint32_t why = Sleeper::kErrand;
  if (!committing_.empty() || !withheld_.empty() || !waiters_.empty() || HasTasks()) why |= Sleeper::kCommit;
  if (!feeds_.empty()) why |= Sleeper::kRecord | Sleeper::kCommit;  // backups are sent both
  sleeper_->Sleeps(why);
  if (context_.shared.gate->notifier()->turn() != turn_seen_) return false;
  return !feeds_.HasNews();
}

size_t GroupDesk::Poll(absl::FunctionRef<void(Link&)> try_again) {
  CommitGate& gate = *context_.shared.gate;
  feeds_.LookAtRecords();
  size_t done = RunTasks() + feeds_.Poll();
  const uint64_t turn = gate.notifier()->turn();
  if (turn == turn_seen_) return done;
  turn_seen_ = turn;
  context_.ReadClock();
  while (!committing_.empty() && committing_.front().begun.sequence <= gate.committed()) {
    ++done;
    if (AnswerCommitted()) continue;
    turn_seen_ = 0;  // its next step is due as soon as others had theirs
    break;
  }
  if (const size_t ended = gate.EndErrands(&context_.stats.lock_times); ended > 0) {
    done += ended;
    context_.tidy.Noted();
    if (ended == CommitGate::kErrandsAtOnce) turn_seen_ = 0;  // others are due when clients had their turn
  }
  if (!withheld_.empty() && takes_writes()) AnswerWithheld();
  for (size_t left = waiters_.size(); left > 0; --left) {
    Link* const link = waiters_.Pop();
    if (link->closing) continue;
    const size_t kept_bytes = link->kept_bytes();
    try_again(*link);
    if (link->kept_bytes() != kept_bytes) ++done;
  }
  outbox_.RingAll();
  return done;
}

void GroupDesk::Do(std::function<bool()> task) {
  {
    absl::MutexLock lock(&tasks_mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_();
}

bool GroupDesk::HasTasks() {
  absl::MutexLock lock(&tasks_mutex_);
  return !tasks_.empty();
}

// Calls each once; those that are not done stay.
size_t GroupDesk::RunTasks() {
  std::vector<std::function<bool()>> tasks;
  {
    absl::MutexLock lock(&tasks_mutex_);
    tasks.swap(tasks_);
  }
  size_t done = 0;
  for (std::function<bool()>& task : tasks) {
    if (task()) {
      ++done;
      continue;
    }
    absl::MutexLock lock(&tasks_mutex_);
    tasks_.push_back(std::move(task));
  }
  return done;
}

// Ends and answers the first request that waits. Returns false if it cannot be published before room is made, or before
// members have accepted more.
bool GroupDesk::AnswerCommitted() {
  CommitGate& gate = *context_.shared.gate;
  Committing one = std::move(committing_.front());
  committing_.pop_front();
  if (one.begun.is_write && !gate.End(one.hash, &one.begun, &context_.stats.lock_times)) {
    const bool goes_on = one.begun.sequence > gate.committed();
    if (goes_on) {
      committing_.push_back(std::move(one));
    } else {
      committing_.push_front(std::move(one));
    }
    return goes_on;
  }
  const size_t bytes = one.bytes();
  if (one.begun.is_write) context_.tidy.Noted();
  if (one.begun.expires) context_.sweep.Noted();
  // The payload was for the case that the write succeeds.
  if (one.begun.is_write && one.begun.outcome.code != kv::Code::kOk) one.payload.clear();
  if (Session* const session = admission_.FindSession(one.session); session != nullptr) {
    session->Finish(one.number, one.begun.outcome);
  }
  if (one.link == nullptr) return true;
  one.link->group.committing_bytes -= bytes;
  if (one.begun.is_write) {
    AnswerWrite(*one.link, one.number, one.begun.outcome, one.payload);
  } else {
    outbox_.Answer(*one.link, one.number, one.begun.outcome, one.payload);
  }
  outbox_.Balance(*one.link);
  return true;
}

void GroupDesk::AnswerWithheld() {
  for (const Withheld& one : std::exchange(withheld_, {})) {
    one.link->group.withheld.erase(one.number);
    one.link->group.withheld_bytes -= one.bytes();
    if (!one.link->closing) outbox_.Answer(*one.link, one.number, one.outcome, one.payload);
    outbox_.Balance(*one.link);
  }
}

bool GroupDesk::AppendReplies(uint64_t from, OutcomesToReport* rest) {
  class Appender final : public OutcomesListener {
   public:
    explicit Appender(CommitGate* gate) : gate_(gate) {}
    bool Introduce(const Session& session) override { return gate_->Introduce(session); }
    bool Report(const Session& session, uint64_t number, const Outcome& outcome) override {
      return gate_->AppendReply({session.id(), number}, outcome);
    }
    bool ReportLost(uint64_t session) override { return gate_->AppendLost(session); }

   private:
    CommitGate* const gate_;
  };
  // Undecided outcomes follow in records that the joiner is sent; wait for those of earlier records.
  if (!committing_.empty() && committing_.front().begun.sequence <= from) return false;
  Appender appender(context_.shared.gate);
  return admission_.Report(rest, &appender);
}

// --- Ends ---

void GroupDesk::Remove(Link& link) {
  for (Committing& one : committing_) {
    if (one.link == &link) one.link = nullptr;
  }
  std::erase_if(withheld_, [&link](const Withheld& one) { return one.link == &link; });
  waiters_.Remove(&link);
  feeds_.Remove(link);
  link.group.committing_bytes = link.group.withheld_bytes = 0;
  outbox_.Balance(link);
}

void GroupDesk::ForgetSession(uint64_t session) {
  std::erase_if(committing_,
                [session](const Committing& one) { return one.session == session && !one.begun.is_write; });
  for (Committing& one : committing_) {
    if (one.session == session) one.payload = {};
  }
}

}  // namespace farlook::server
