#include "server/group.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "server/log.h"

namespace farlook::server {
namespace {

using cluster::Action;
using cluster::Actions;
using cluster::Configuration;
using cluster::Member;
using cluster::Replica;

// How long one change of the record is waited for, and how long the end of that may be.
constexpr absl::Duration kWatch = absl::Milliseconds(200);
constexpr absl::Duration kWatchAgain = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> Group::Open(Options options) {
  auto directory = options.open_directory();
  if (!directory.ok()) return directory.status();
  std::unique_ptr<Group> group(new Group(std::move(options), *std::move(directory)));
  absl::StatusOr<cluster::Entry> entry = group->directory_->Get(group->options_.name, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  group->entry_ = *std::move(entry);
  if (group->entry_.revision == 0) return group;
  absl::StatusOr<Configuration> first = cluster::DecodeConfiguration(group->entry_.value);
  if (!first.ok()) return first.status();
  if (absl::Status status = group->options_.accepts(first->layout); !status.ok()) return status;
  group->first_ = *std::move(first);
  if (absl::Status status = group->CheckCluster(); !status.ok()) return status;
  return group;
}

Group::Group(Options options, std::unique_ptr<cluster::Directory> directory)
    : options_(std::move(options)), directory_(std::move(directory)), member_(options_.incarnation) {}

Group::~Group() {
  Stop();
  if (watcher_.joinable()) watcher_.join();
}

void Group::Attach(Parts parts) {
  parts_ = std::move(parts);
  stream_.OnAdvanced([this] { parts_.gate->Advanced(); });
  stream_.OnAppended([this] { parts_.gate->Appended(); });
  stream_.OnRoom([this] { wake_.Wake(); });
}

void Group::Start(Parts parts) {
  Attach(std::move(parts));
  has_threads_ = true;
  runner_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "group");
    Run();
  });
  watcher_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "directory");
    Watch();
  });
}

void Group::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.Wake();
  if (runner_.joinable()) runner_.join();
  cluster_watch_.Stop();
  follower_.reset();
  endpoint_.reset();
  taking_.reset();
}

bool Group::LockTells(absl::string_view address) const {
  return options_.has_ended && !absl::StartsWith(address, "rdma:");
}

void Group::SayLeft() {
  if (LockTells(parts_.address)) return;
  if (member_.epoch() == 0 || member_.configuration().primary().incarnation != options_.incarnation) return;
  const absl::StatusOr<cluster::Entry> entry = directory_->Get(options_.name, cluster::Freshness::kLatest);
  if (!entry.ok()) return;
  const absl::StatusOr<Configuration> last = cluster::DecodeConfiguration(entry->value);
  if (!last.ok()) return;
  const std::optional<Configuration> next = Member::AfterLeaving(*last, options_.incarnation);
  if (!next.has_value()) return;
  const cluster::CasResult result =
      directory_->Cas(options_.name, entry->revision, cluster::EncodeConfiguration(*next));
  if (result.outcome != cluster::CasOutcome::kDone) return;
  Log(LogLevel::kInfo, "the group's record says that this primary has left", {{"epoch", next->epoch}});
}

// ---- The directory.

// With a directory of its own: an object of it is for one thread.
void Group::Watch() {
  uint64_t seen = entry_.revision;
  bool loss_is_told = false;
  std::unique_ptr<cluster::Directory> directory;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    if (directory == nullptr) {
      auto opened = options_.open_directory();
      if (opened.ok()) directory = *std::move(opened);
    }
    absl::StatusOr<cluster::Entry> entry = absl::UnavailableError("not open");
    if (directory != nullptr) entry = directory->Wait(options_.name, seen, kWatch);
    if (absl::IsDataLoss(entry.status()) && !std::exchange(loss_is_told, true)) {
      Log(LogLevel::kError, "the group's record is lost", {{"reason", entry.status().message()}});
    }
    if (entry.ok()) {
      seen = entry->revision;
      Hear(*std::move(entry));
    } else if (!absl::IsDeadlineExceeded(entry.status())) {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kWatchAgain);
    }
  }
}

void Group::Hear(cluster::Entry entry) {
  {
    absl::MutexLock lock(&mutex_);
    changes_.push_back(std::move(entry));
  }
  wake_.Wake();
}

void Group::Learn(const cluster::Entry& entry) {
  absl::StatusOr<Configuration> configuration = cluster::DecodeConfiguration(entry.value);
  absl::Status status = configuration.status();
  Actions actions;
  const uint64_t before = member_.epoch();
  const uint64_t followed = before == 0 ? 0 : member_.configuration().primary().incarnation;
  if (status.ok()) status = member_.Learn(entry.revision, *configuration, &actions);
  if (!status.ok()) {
    Log(LogLevel::kError, "the group's record is not believed", {{"reason", status.message()}});
    return;
  }
  if (member_.epoch() != before && configuration->hash_seed != parts_.hash_seed) {
    return Depose("the group's tables have another hash seed");
  }
  if (member_.epoch() != before && configuration->layout != OwnLayout()) {
    return Depose("the group's tables have another layout");
  }
  if (actions.empty()) Publish();  // clients that come to one that joins are told where to go
  CarryOut(&actions);
  if (member_.epoch() == before || deposed_ || member_.Serves()) return;
  const uint64_t primary = member_.configuration().primary().incarnation;
  if (primary == options_.incarnation) return;
  silent_ = absl::ZeroDuration();
  // One that waits to be filled by the same primary goes on to wait.
  if (backup_ != nullptr || primary != followed) follower_.reset();
  if (backup_ == nullptr) return;
  if (member_.role() == Member::Role::kJoining && primary != filled_by_) {
    return Depose("the primary that filled this server is gone; another one fills it anew");
  }
  backup_->EnterEpoch(member_.epoch(), primary);
}

// ---- Actions.

void Group::CarryOut(Actions* actions) {
  while (!actions->empty() && !deposed_) {
    Actions more;
    const Action action = std::move(actions->front());
    actions->erase(actions->begin());
    CarryOutOne(action, &more);
    actions->insert(actions->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    Publish();
  }
}

void Group::CarryOutOne(const Action& action, Actions* more) {
  switch (action.kind) {
    case Action::Kind::kStoreWord:
      SetMembers();  // rule 4 holds from the proposal on
      parts_.table->ShowEpoch(action.word);
      if (!action.word.is_open()) member_.Stored(Now(), more);
      return;
    case Action::Kind::kCas: {
      const cluster::CasResult result = directory_->Cas(options_.name, action.expected, action.record);
      uint64_t suppressed;
      if (!result.why.ok() && record_log_.Allow(parts_.clock->NowNs(), &suppressed)) {
        Log(LogLevel::kWarning, "the group's record cannot be changed",
            {{"reason", result.why.message()}, {"suppressed", suppressed}});
      }
      return member_.Swapped(result, more);
    }
    case Action::Kind::kRead: {
      absl::StatusOr<cluster::Entry> entry = directory_->Get(options_.name, cluster::Freshness::kLatest);
      absl::MutexLock lock(&mutex_);
      if (entry.ok()) changes_.push_back(*std::move(entry));
      return;
    }
    case Action::Kind::kShareTail:
      ShareTail();
      if (AllAgree()) member_.TailAccepted(member_.epoch(), Now(), more);
      return;
    case Action::Kind::kPublishTail:
      if (backup_ == nullptr) return;
      if (absl::Status status = backup_->Promote(); !status.ok()) Depose(status.message());
      return;
    case Action::Kind::kServe:
      return Lead();
    case Action::Kind::kStepDown:
      return Depose("it is no member of the group any more");
  }
}

// What follows from the configuration for others.
void Group::Publish() {
  if (member_.epoch() == 0) return;
  const Configuration& configuration = member_.configuration();
  const std::string& primary = configuration.primary().address;
  std::vector<std::string> addresses = {primary};
  for (const Replica& member : configuration.members) {
    if (member.kind != Replica::Kind::kPrimary) addresses.push_back(member.address);
  }
  serving_.Tell({.primary = deposed_ ? "" : primary,
                 .members = absl::StrJoin(addresses, ","),
                 .epoch = configuration.epoch,
                 .lease_us = configuration.lease_us,
                 .cluster = configuration.cluster,
                 .slots = kv::WordsOf(configuration.slots)});
  TellCluster(configuration);
  // Before those who wait for its consequences go on: who asks after a write that members' removal let through is told
  // of no member that was removed.
  if (described_epoch_ != member_.epoch()) Describe();
  const bool takes_writes = configuration.members.size() >= configuration.min_insync;
  const bool took = serving_.takes_writes();
  // Before those who are gone need not accept any more: what is committed from then on, few have.
  if (!takes_writes) serving_.SetTakesWrites(false);
  if (member_.Serves()) {
    stream_.EnterEpoch(member_.epoch());
    SetMembers();
  }
  if (takes_writes == took) return;
  if (takes_writes) {
    serving_.SetTakesWrites(true);
    return parts_.gate->Advanced();  // who waited goes on
  }
  if (!member_.Serves() && member_.role() != Member::Role::kPromoting) return;
  Log(LogLevel::kError, "writes wait until more members are in sync",
      {{"in_sync", configuration.members.size()}, {"min_insync", configuration.min_insync}});
}

void Group::SetMembers() {
  if (!member_.Serves() && member_.role() != Member::Role::kPromoting) return;
  std::vector<uint64_t> must_accept = member_.MustAccept();
  if (filling_ != nullptr && filling_->caught_up != 0) must_accept.push_back(filling_->joiner);
  stream_.SetMembers(std::move(must_accept));
}

// It serves as soon as Restore() says so.
void Group::Lead() {
  {
    absl::MutexLock lock(&mutex_);
    led_since_ = member_.epoch();
    if (backup_ != nullptr) tasks_ += static_cast<int>(parts_.workers.size());
  }
  restores_ = true;
  if (backup_ == nullptr) return;
  for (Worker* const worker : parts_.workers) {
    worker->Do([this, worker] {
      worker->Restore(filled_by_, backup_->outcomes());
      TaskDone();
      return true;
    });
  }
}

// Whether it has just come to serve. The workers wake it when they are done.
bool Group::Restore() {
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_ != 0) return false;
  }
  restores_ = false;
  WatchCluster();
  serving_.Set(true);
  Log(LogLevel::kInfo, "primary of the group", {{"group", options_.name}, {"epoch", member_.epoch()}});
  return true;
}

void Group::TaskDone() {
  {
    absl::MutexLock lock(&mutex_);
    --tasks_;
  }
  wake_.Wake();
}

void Group::Depose(absl::string_view why) {
  if (std::exchange(deposed_, true)) return;
  serving_.Set(false);
  Publish();
  Log(LogLevel::kWarning, "this server's part in the group ends, and it begins anew", {{"reason", why}});
  parts_.deposed();
}

// ---- The thread.

absl::Time Group::Now() const { return absl::UnixEpoch() + absl::Nanoseconds(parts_.clock->NowNs()); }

void Group::Begin() {
  if (entry_.revision != 0) {
    Learn(entry_);
  } else {
    Configuration first = first_;  // its cluster and slots, where it is to be of one
    first.group = cluster::RandomId();
    first.hash_seed = parts_.hash_seed;
    first.layout = OwnLayout();
    // On this host words are looked at with each get, and need no lease.
    const bool is_local = absl::StartsWith(parts_.address, "shm:");
    first.lease_us = is_local ? cluster::kMinLeaseUs : static_cast<uint32_t>(absl::ToInt64Microseconds(options_.lease));
    first.replicas = options_.replicas;
    first.min_insync = options_.min_insync;
    first.members.push_back({options_.incarnation, Replica::Kind::kPrimary, parts_.address});
    Actions actions;
    if (absl::Status status = member_.Create(std::move(first), &actions); !status.ok()) Depose(status.message());
    CarryOut(&actions);
  }
}

bool Group::Step() {
  const bool did = !deposed_ && Turn();
  if (did) idle_since_ = absl::InfiniteFuture();
  const bool goes_on = did || Spins();
  if (!goes_on || Now() >= described_at_ + kTick) Describe();
  return goes_on;
}

void Group::Run() {
  Begin();
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
    }
    if (Step()) {
      // As a worker does (WorkerThread): who sends what is copied here, or what one that joins waits for, may be on
      // this processor.
      const bool waits = idle_since_ != absl::InfiniteFuture() && member_.role() == Member::Role::kJoining;
      if (filling_ != nullptr || waits) sched_yield();
      continue;
    }
    pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (follower_ != nullptr) {
      if (!endpoint_->Arm()) continue;
      fds[1].fd = endpoint_->fd();
    }
    idle_since_ = absl::InfiniteFuture();
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(kTick)));
    wake_.Clear();
  }
}

// Of a backup that had nothing to do: whether it looks again before it sleeps. What its primary waits for, that one's
// clients wait for too.
bool Group::Spins() {
  if (parts_.spin_ns == 0 || follower_ == nullptr || endpoint_->heard() == rdma::Heard::kHere) return false;
  const absl::Time now = Now();
  idle_since_ = std::min(idle_since_, now);
  return now - idle_since_ < absl::Nanoseconds(parts_.spin_ns);
}

// Whether there may be more to do at once.
bool Group::Turn() {
  std::deque<cluster::Entry> changes;
  {
    absl::MutexLock lock(&mutex_);
    changes.swap(changes_);
  }
  for (const cluster::Entry& entry : changes) {
    if (!deposed_) Learn(entry);
  }
  if (deposed_) return false;
  Actions actions;
  member_.Tick(Now(), &actions);
  if (actions.empty()) member_.Retry(&actions);
  CarryOut(&actions);
  if (deposed_) return false;
  if (member_.Serves()) return restores_ ? Restore() : Serve();
  return member_.role() == Member::Role::kPromoting ? AwaitTail() : Follow();
}

}  // namespace farlook::server
