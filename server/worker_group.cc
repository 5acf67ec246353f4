// What a worker of a group's primary does with requests whose answers wait until all members accepted them. The rules:
// commit_gate.h.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kv/cluster_map.h"
#include "kv/words.h"
#include "server/worker.h"

namespace farlook::server {

Outcome Worker::TryInGroup(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                           absl::string_view* payload) {
  if (IsOfAnotherGroup(request, hash) || ComesAfterMoved(link, request, hash)) return Moved(link, request.type, hash);
  if (IsWrite(request.type) && !takes_writes()) return Outcome(kv::Code::kBusy);
  if (IsWrite(request.type) && !link.is_introduced) {
    if (!shared_.gate->Introduce(*link.session)) return Outcome(kv::Code::kBusy);
    link.is_introduced = true;
  }
  if (request.type == kv::RequestType::kPutPulled) {
    link.pulls->Add(request, hash);
    return Outcome(kv::Code::kLater);
  }
  if (request.type == kv::RequestType::kPing || request.type == kv::RequestType::kStat) {
    return executor_.Execute(request.type, request, {hash}, /*tell_cell=*/false, now_ns_, payload);
  }
  CommitGate::Begun begun = BeginInGroup(link, request, hash, may_step, payload);
  // It may be gone meanwhile. Each time that it is another item came, and went.
  while (begun.outcome.code == kv::Code::kTimeIsOver) {
    if (shared_.gate->Expire(hash, request.key)) return Outcome(kv::Code::kBusy);
    begun = BeginInGroup(link, request, hash, may_step, payload);
  }
  if (begun.outcome.code == kv::Code::kMoved) return Moved(link, request.type, hash);
  if (begun.sequence == 0) return begun.outcome;
  AwaitCommit(link, request.number, hash, begun, *payload);
  return Outcome(kv::Code::kLater);
}

// Of a cluster: its key lies in a slot that is not this group's. Then nothing is done, and no record made.
bool Worker::IsOfAnotherGroup(const kv::Request& request, uint64_t hash) const {
  return shared_.serving != nullptr && kv::HasKey(request.type) && !shared_.serving->Owns(kv::ClusterSlotOf(hash));
}

bool Worker::ComesAfterMoved(const Link& link, const kv::Request& request, uint64_t hash) {
  return link.moved != nullptr && IsWrite(request.type) && (*link.moved)[kv::ClusterSlotOf(hash)];
}

Outcome Worker::Moved(Link& link, kv::RequestType type, uint64_t hash) {
  if (IsWrite(type)) {
    if (link.moved == nullptr) link.moved = std::make_unique<kv::SlotSet>();
    link.moved->set(kv::ClusterSlotOf(hash));
  }
  return Outcome(kv::Code::kMoved);
}

// When it comes, not when it is carried out, which may be after others.
void Worker::TakeFlags(Link& link, const kv::Request& request, uint64_t hash) {
  if (shared_.serving == nullptr || !IsWrite(request.type)) return;
  if ((request.flags & kv::Request::kOnlyAsked) != 0) {
    Moved(link, request.type, hash);
  } else if (link.moved != nullptr) {
    link.moved->reset(kv::ClusterSlotOf(hash));
  }
}

CommitGate::Begun Worker::BeginInGroup(Link& link, const kv::Request& request, uint64_t hash, bool may_step,
                                       absl::string_view* payload) {
  const CommitGate::Asker asker{link.session->id(), request.number};
  CommitGate::Begun begun;
  if (request.type == kv::RequestType::kCounterRead) {
    begun = shared_.gate->ReadCounter(request, hash, &stats_.lock_times);
  } else if (IsWrite(request.type)) {
    begun = shared_.gate->Begin(request, hash, asker, may_step, &stats_.lock_times);
    // From now on nobody changes the item before this touch does.
    if (request.type == kv::RequestType::kGetAndTouch && begun.is_write) {
      executor_.Execute(request.type, request, {hash}, /*tell_cell=*/false, now_ns_, payload);
    }
  } else {
    const Outcome read = executor_.Execute(request.type, request, {hash}, /*tell_cell=*/false, now_ns_, payload);
    return read.code == kv::Code::kTimeIsOver ? CommitGate::Begun{read} : shared_.gate->Confirm(read);
  }
  if (kv::IsCounterRequest(request.type)) *payload = executor_.PayloadOf(request.type, begun.outcome);
  return begun;
}

void Worker::AwaitCommit(Link& link, uint64_t number, uint64_t hash, const CommitGate::Begun& begun,
                         absl::string_view payload) {
  committing_.push_back({begun, hash, link.session->id(), number, &link, std::string(payload)});
  link.committing_bytes += payload.size();
  group_turn_ = 0;  // it may be committed already
}

void Worker::WaitForGroup(Link& link) {
  if (link.waits_for_group || link.closing) return;
  link.waits_for_group = true;
  group_waiters_.push_back(&link);
}

// False: there is something to do.
bool Worker::ArmInGroup() {
  uint32_t why = Sleeper::kErrand;
  if (!committing_.empty() || !withheld_.empty() || !group_waiters_.empty() || HasTasks()) why |= Sleeper::kCommit;
  if (!feeds_.empty()) why |= Sleeper::kRecord | Sleeper::kCommit;  // backups hear of both
  sleeper_->Sleeps(why);
  if (shared_.gate->turn() != group_turn_) return false;
  return feeds_.empty() || shared_.gate->records() == records_seen_;
}

size_t Worker::PollGroup() {
  records_seen_ = shared_.gate->records();
  size_t done = RunTasks() + (feeds_.empty() ? 0 : PumpFeeds());
  const uint64_t turn = shared_.gate->turn();
  if (turn == group_turn_) return done;
  group_turn_ = turn;
  LookAtClock();
  while (!committing_.empty() && committing_.front().begun.sequence <= shared_.gate->committed()) {
    ++done;
    if (AnswerCommitted()) continue;
    group_turn_ = 0;  // its next step is due as soon as others had theirs
    break;
  }
  if (const size_t ended = shared_.gate->EndErrands(&stats_.lock_times); ended > 0) {
    done += ended;
    tidy_.Noted();
  }
  if (!withheld_.empty() && takes_writes()) AnswerWithheld();
  for (Link* link : std::exchange(group_waiters_, {})) {
    link->waits_for_group = false;
    if (link->closing) continue;
    const size_t kept_bytes = link->kept_bytes();
    link->pulls->TryAgain();
    AnswerEndedPulls(*link);
    ContinueHeld(*link);
    if (link->kept_bytes() != kept_bytes) ++done;
  }
  RingAll();
  return done;
}

void Worker::Do(std::function<bool()> task) {
  {
    absl::MutexLock lock(&tasks_mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_();
}

bool Worker::HasTasks() {
  absl::MutexLock lock(&tasks_mutex_);
  return !tasks_.empty();
}

// Each once; those that are not done stay.
size_t Worker::RunTasks() {
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

// Takes the first that waits. False: it cannot be published before room is made, or members have come nearer.
bool Worker::AnswerCommitted() {
  Committing one = std::move(committing_.front());
  committing_.pop_front();
  if (one.begun.is_write && !shared_.gate->End(one.hash, &one.begun, &stats_.lock_times)) {
    const bool goes_on = one.begun.sequence > shared_.gate->committed();
    if (goes_on) {
      committing_.push_back(std::move(one));
    } else {
      committing_.push_front(std::move(one));
    }
    return goes_on;
  }
  const size_t payload_bytes = one.payload.size();
  if (one.begun.is_write) tidy_.Noted();
  if (one.begun.expires) sweep_.Noted();
  if (one.begun.is_write && one.begun.outcome.code != kv::Code::kOk) one.payload.clear();  // it was for the other case
  if (Session* const session = admission_.FindSession(one.session); session != nullptr) {
    session->Finish(one.number, one.begun.outcome);
  }
  if (one.link == nullptr) return true;
  one.link->committing_bytes -= payload_bytes;
  if (one.begun.is_write) {
    AnswerWrite(*one.link, one.number, one.begun.outcome, one.payload);
  } else {
    Answer(*one.link, one.number, one.begun.outcome, one.payload);
  }
  Balance(*one.link);
  return true;
}

// Also of one that was done before, and is asked for again. Where too few members are in sync it is told when there are
// enough: that is what an acknowledgement says.
void Worker::AnswerWrite(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload) {
  if (takes_writes()) return Answer(link, number, outcome, payload);
  withheld_.push_back({&link, number, outcome, std::string(payload)});
}

void Worker::AnswerWithheld() {
  for (const Withheld& one : std::exchange(withheld_, {})) {
    if (!one.link->closing) Answer(*one.link, one.number, one.outcome, one.payload);
  }
}

// What is open will be told by a record that the joiner hears of; or is waited for.
bool Worker::TellOutcomes(uint64_t from, OutcomesToTell* rest) {
  class Teller final : public OutcomesListener {
   public:
    explicit Teller(CommitGate* gate) : gate_(gate) {}
    bool Introduce(const Session& session) override { return gate_->Introduce(session); }
    bool Tell(const Session& session, uint64_t number, const Outcome& outcome) override {
      return gate_->Tell({session.id(), number}, outcome);
    }
    bool TellLost(uint64_t session) override { return gate_->TellLost(session); }

   private:
    CommitGate* const gate_;
  };
  if (!committing_.empty() && committing_.front().begun.sequence <= from) return false;
  Teller teller(shared_.gate);
  return admission_.Tell(rest, &teller);
}

// Over the connection with which its client goes on.
void Worker::AskedAgain(Link& link, uint64_t number) {
  for (Committing& one : committing_) {
    if (one.number != number || one.session != link.session->id() || one.link != nullptr) continue;
    one.link = &link;
    link.committing_bytes += one.payload.size();
  }
}

// Its connection is over. What it asked for takes its course.
void Worker::ForgetInGroup(Link& link) {
  for (Committing& one : committing_) {
    if (one.link == &link) one.link = nullptr;
  }
  if (link.feed != nullptr) shared_.records->Gone(link.feed->id);
  std::erase_if(withheld_, [&link](const Withheld& one) { return one.link == &link; });
  std::erase(group_waiters_, &link);
  std::erase(feeds_, &link);
}

// --- Backups ---

// What is no request: a backup's.
void Worker::TakeOther(Link& link, absl::string_view message, const absl::Status& status) {
  if (link.refused) return;
  if (link.feed != nullptr) return TakeAccepted(link, message);
  if (shared_.records != nullptr && kv::IsFirstMessage(message, kv::FirstMessage::kFollow)) {
    return BeginFeed(link, message);
  }
  Drop(link, status.message());
}

absl::StatusOr<FeedId> Worker::AdmitBackup(const Link& link, const absl::StatusOr<kv::Follow>& follow) {
  if (!follow.ok()) return follow.status();
  if (shared_.users != nullptr && !link.who.user.admin) {
    return absl::PermissionDeniedError(absl::StrCat("user ", link.who.user.name, " lacks the role admin"));
  }
  return shared_.records->Admit(*follow);
}

void Worker::BeginFeed(Link& link, absl::string_view message) {
  const absl::StatusOr<kv::Follow> follow = kv::Follow::Decode(message);
  const absl::StatusOr<FeedId> feed = AdmitBackup(link, follow);
  if (!feed.ok()) {
    kv::Refusal refusal;
    refusal.code =
        absl::IsPermissionDenied(feed.status()) ? kv::RefusalCode::kNotAllowed : kv::RefusalFor(feed.status());
    refusal.text = std::string(feed.status().message());
    return Refuse(link, std::move(refusal));
  }
  link.feed = std::make_unique<Feed>(*feed, *follow);
  feeds_.push_back(&link);
  link.entry->Set(Roster::State::kBackup);
  Log(LogLevel::kInfo, "a backup follows",
      {{"peer", link.connection->peer()},
       {"incarnation", absl::Hex(follow->incarnation)},
       {"accepted", follow->accepted}});
  AnswerFollow(link);
}

// As soon as it is known from where on it hears all. False: not yet, or its connection is over.
bool Worker::AnswerFollow(Link& link) {
  Feed& feed = *link.feed;
  if (feed.is_begun) return true;
  const absl::StatusOr<std::optional<RecordSource::Start>> start = shared_.records->StartOf(feed.id);
  if (!start.ok()) Drop(link, start.status().message());
  if (!start.ok() || !start->has_value()) return false;
  feed.is_begun = true;
  feed.accepted = feed.follow.accepted = (*start)->after;
  feed.follow.items = (*start)->items;
  Send(link, feed.follow.Encode(), {});
  return true;
}

void Worker::TakeAccepted(Link& link, absl::string_view message) {
  if (message.size() != kAcceptedBytes || !link.feed->is_begun)
    return Drop(link, "a backup's message is no acceptance");
  const uint64_t accepted = kv::LoadAs<uint64_t>(message.data());
  if (std::exchange(link.feed->accepted, accepted) == accepted) link.feed->is_asked = true;
  const absl::Status status = shared_.records->Accepted(link.feed->id, accepted);
  if (!status.ok()) Drop(link, status.message());
}

// Records, or what was committed if the backup has waited for that.
absl::StatusOr<std::optional<cluster::OutgoingBatch>> Worker::NextBatch(Feed* feed) {
  const int64_t now_ns = shared_.clock->NowNs();
  const uint64_t committed = shared_.gate->committed();
  if (committed != feed->told_commit && feed->tell_commit_ns == 0) feed->tell_commit_ns = now_ns + Feed::kTellCommitNs;
  const bool alone = feed->tell_commit_ns != 0 && now_ns >= feed->tell_commit_ns;
  auto batch = shared_.records->NextBatch(feed->id, Feed::kBatchBytes, shared_.time.At(now_ns), alone);
  if (batch.ok() && (alone || batch->has_value())) {
    feed->told_commit = committed;
    feed->tell_commit_ns = 0;
  } else if (feed->tell_commit_ns != 0) {
    due_ns_ = std::min(due_ns_, feed->tell_commit_ns);
  }
  return batch;
}

bool Worker::fills() const {
  return std::any_of(feeds_.begin(), feeds_.end(), [](const Link* link) {
    return link->feed->is_begun && !link->feed->follow.address.empty();  // who waits for its turn has no answer yet
  });
}

// To each what its send queue takes; one message at most waits for room there.
size_t Worker::PumpFeeds() {
  size_t done = 0;
  for (Link* link : feeds_) {
    Feed& feed = *link->feed;
    if (link->closing || !AnswerFollow(*link)) continue;
    for (size_t most = kBatch; most > 0 && !link->closing && link->replies.empty(); --most) {
      if (!feed.batch.has_value()) {
        if (std::exchange(feed.is_asked, false)) {
          char bytes[kAcceptedBytes];
          kv::StoreAs(bytes, feed.accepted);
          Send(*link, {bytes, sizeof bytes}, {});
          ++done;
        }
        auto batch = NextBatch(&feed);
        if (!batch.ok()) {
          Drop(*link, batch.status().message());
          ++done;
          break;
        }
        feed.batch = *std::move(batch);
        if (!feed.batch.has_value()) break;
        const auto head = cluster::EncodeBatchHead(feed.batch->head, feed.batch->records);
        feed.sent = std::min(feed.batch->records.size(), kv::kMaxMessageBytes - head.size());
        Send(*link, {head.data(), head.size()}, feed.batch->records.substr(0, feed.sent));
      } else {
        const absl::string_view piece = feed.batch->records.substr(feed.sent, kv::kMaxMessageBytes);
        feed.sent += piece.size();
        Send(*link, piece, {});
      }
      if (feed.sent == feed.batch->records.size()) feed.batch.reset();
      ++done;
    }
  }
  if (done > 0) RingAll();
  return done;
}

}  // namespace farlook::server
