#include "server/group.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/log.h"
#include "server/process_lock.h"

namespace farlook::server {
namespace {

using cluster::Action;
using cluster::Actions;
using cluster::Configuration;
using cluster::Member;
using cluster::Replica;

// Of a connection's beginning.
constexpr int64_t kDialMs = 1000;
// How long one change of the record is waited for, and how long the end of that may be.
constexpr absl::Duration kWatch = absl::Milliseconds(200);
constexpr absl::Duration kWatchAgain = absl::Milliseconds(100);

uint64_t Random() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> Group::Open(Options options) {
  auto directory = options.url.Open();
  if (!directory.ok()) return directory.status();
  std::unique_ptr<Group> group(new Group(std::move(options), *std::move(directory)));
  absl::StatusOr<cluster::Entry> entry = group->directory_->Get(group->options_.url.name, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  group->entry_ = *std::move(entry);
  if (group->entry_.revision == 0) return group;
  absl::StatusOr<Configuration> first = cluster::DecodeConfiguration(group->entry_.value);
  if (!first.ok()) return first.status();
  if (first->layout != group->options_.layout) {
    return absl::FailedPreconditionError(
        absl::StrCat("the group's tables have layout ", absl::Hex(first->layout), " and this server's would have ",
                     absl::Hex(group->options_.layout), ": start it with the same release, --workers and --memory"));
  }
  group->first_ = *std::move(first);
  return group;
}

Group::Group(Options options, std::unique_ptr<cluster::Directory> directory)
    : options_(std::move(options)), directory_(std::move(directory)), member_(options_.incarnation) {}

Group::~Group() {
  Stop();
  if (watcher_.joinable()) watcher_.join();
}

void Group::Start(Parts parts) {
  parts_ = std::move(parts);
  stream_.OnAdvanced([this] { parts_.gate->Advanced(); });
  stream_.OnAppended([this] { parts_.gate->Advanced(); });
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
      auto opened = options_.url.Open();
      if (opened.ok()) directory = *std::move(opened);
    }
    absl::StatusOr<cluster::Entry> entry = absl::UnavailableError("not open");
    if (directory != nullptr) entry = directory->Wait(options_.url.name, seen, kWatch);
    if (absl::IsDataLoss(entry.status()) && !std::exchange(loss_is_told, true)) {
      Log(LogLevel::kError, "the group's record is lost", {{"reason", entry.status().message()}});
    }
    absl::MutexLock lock(&mutex_);
    if (entry.ok()) {
      seen = entry->revision;
      changes_.push_back(*std::move(entry));
      wake_.Wake();
    } else if (!absl::IsDeadlineExceeded(entry.status())) {
      mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kWatchAgain);
    }
  }
}

void Group::Learn(const cluster::Entry& entry) {
  absl::StatusOr<Configuration> configuration = cluster::DecodeConfiguration(entry.value);
  absl::Status status = configuration.status();
  Actions actions;
  const uint64_t before = member_.epoch();
  if (status.ok()) status = member_.Learn(entry.revision, *configuration, &actions);
  if (!status.ok()) {
    Log(LogLevel::kError, "the group's record is not believed", {{"reason", status.message()}});
    return;
  }
  if (member_.epoch() != before && configuration->hash_seed != parts_.hash_seed) {
    return Depose("the group's tables have another hash seed");
  }
  CarryOut(&actions);
  if (member_.epoch() == before || deposed_ || member_.Serves()) return;
  const uint64_t primary = member_.configuration().primary().incarnation;
  if (primary == options_.incarnation) return;
  follower_.reset();
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
      if (!action.word.is_open()) member_.Stored(Now(), more);
      return;
    case Action::Kind::kCas: {
      const cluster::CasResult result = directory_->Cas(options_.url.name, action.expected, action.record);
      if (!result.why.ok()) Log(LogLevel::kWarning, "the group's record", {{"reason", result.why.message()}});
      return member_.Swapped(result, more);
    }
    case Action::Kind::kRead: {
      absl::StatusOr<cluster::Entry> entry = directory_->Get(options_.url.name, cluster::Freshness::kLatest);
      absl::MutexLock lock(&mutex_);
      if (entry.ok()) changes_.push_back(*std::move(entry));
      return;
    }
    case Action::Kind::kGatherTail:
      // Its own: it proposed itself alone, and what was acknowledged all members had.
      if (backup_ != nullptr) {
        if (absl::Status status = backup_->Promote(); !status.ok()) return Depose(status.message());
      }
      return member_.TailAccepted(member_.epoch(), Now(), more);
    case Action::Kind::kPublishTail:
      return;  // it is published
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
  std::vector<std::string> addresses;
  for (const Replica& member : configuration.members) addresses.push_back(member.address);
  serving_.SetMembers(deposed_ ? "" : configuration.primary().address, absl::StrJoin(addresses, ","));
  if (member_.Serves()) {
    stream_.EnterEpoch(member_.epoch());
    SetMembers();
  }
}

void Group::SetMembers() {
  if (!member_.Serves()) return;
  std::vector<uint64_t> must_accept = member_.MustAccept();
  if (filling_ != nullptr && filling_->caught_up != 0) must_accept.push_back(filling_->joiner);
  stream_.SetMembers(std::move(must_accept));
}

// It serves from now on.
void Group::Lead() {
  stream_.Lead(member_.epoch(), options_.incarnation, backup_ == nullptr ? 1 : backup_->accepted() + 1);
  SetMembers();
  {
    absl::MutexLock lock(&mutex_);
    led_since_ = member_.epoch();
  }
  if (backup_ != nullptr) {
    {
      absl::MutexLock lock(&mutex_);
      tasks_ += static_cast<int>(parts_.workers.size());
    }
    for (Worker* const worker : parts_.workers) {
      worker->Do([this, worker] {
        worker->Restore(filled_by_, backup_->outcomes());
        TaskDone();
        return true;
      });
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* tasks) { return *tasks == 0; }, &tasks_));
  }
  serving_.Set(true);
  Log(LogLevel::kInfo, "primary of the group", {{"group", options_.url.name}, {"epoch", member_.epoch()}});
}

void Group::TaskDone() {
  absl::MutexLock lock(&mutex_);
  --tasks_;
}

void Group::Depose(absl::string_view why) {
  if (std::exchange(deposed_, true)) return;
  serving_.Set(false);
  Publish();
  Log(LogLevel::kWarning, "this server's part in the group ends, and it begins anew", {{"reason", why}});
  parts_.deposed();
}

// ---- As joiner and backup.

void Group::Promote() {
  std::vector<uint64_t> others;
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation != options_.incarnation) others.push_back(member.incarnation);
  }
  filled_by_ = member_.configuration().primary().incarnation;
  Log(LogLevel::kWarning, "the primary's process has ended; this server takes its place",
      {{"epoch", member_.epoch()}, {"accepted", backup_ == nullptr ? 0 : backup_->accepted()}});
  Actions actions;
  if (absl::Status status = member_.Promote(others, &actions); !status.ok()) {
    Log(LogLevel::kError, "cannot take the primary's place", {{"reason", status.message()}});
  }
  CarryOut(&actions);
}

// The connection to the primary is over.
void Group::Unfollow() {
  const absl::Status status = follower_->status();
  follower_.reset();
  dial_at_ = Now() + kDialAgain;
  // Also RESOURCE_EXHAUSTED: but of this host, or of a primary that has no place, it may pass.
  if ((backup_ != nullptr && backup_->has_failed()) || absl::IsDataLoss(status)) return Depose(status.message());
  // The primary has given it up.
  if (backup_ != nullptr && absl::IsPermissionDenied(status)) return Depose(status.message());
  // What it lacks is not kept, most likely: of another epoch it learns.
  if (!absl::IsFailedPrecondition(status)) refused_since_ = absl::InfiniteFuture();
  if (absl::IsFailedPrecondition(status)) refused_since_ = std::min(refused_since_, Now());
  if (backup_ != nullptr && Now() - refused_since_ > kStandstill) Depose(status.message());
}

// For certain, of the primary's process.
bool Group::HasEnded(uint64_t primary) {
  if (options_.url.locks().empty()) return false;
  const absl::StatusOr<bool> ended = ProcessLock::HasEnded(options_.url.locks(), primary);
  if (!ended.ok() && !std::exchange(lock_error_is_told_, true)) {
    Log(LogLevel::kError, "whether the primary has ended is not known", {{"reason", ended.status().message()}});
  }
  return ended.ok() && *ended;
}

bool Group::Follow() {
  if (member_.epoch() == 0 || member_.role() == Member::Role::kPromoting || member_.is_proposing()) return false;
  const Replica& primary = member_.configuration().primary();
  if (follower_ != nullptr && follower_->over()) Unfollow();
  if (deposed_) return false;
  if (follower_ == nullptr) {
    if (member_.role() == Member::Role::kBackup && HasEnded(primary.incarnation)) {
      if (Now() < propose_at_) return false;
      propose_at_ = Now() + kProposeAgain;
      Promote();
      return true;
    }
    if (Now() < dial_at_) return false;
    Dial(primary);
  }
  if (follower_ == nullptr || !member_.Accepts(primary.incarnation, member_.epoch())) return false;
  if (follower_->follows()) refused_since_ = absl::InfiniteFuture();
  return follower_->Poll() > 0;
}

void Group::Dial(const Replica& primary) {
  dial_at_ = Now() + kDialAgain;
  auto endpoint = rdma::CreateEndpoint(primary.address);
  if (!endpoint.ok()) return;
  endpoint_ = *std::move(endpoint);
  const Follower::Identity me = {options_.incarnation, member_.epoch(), options_.user, options_.secret, parts_.address};
  if (backup_ != nullptr) {
    follower_ = std::make_unique<Follower>(endpoint_.get(), backup_.get(), me);
  } else {
    const uint64_t by = primary.incarnation;
    const auto make = [this, by](uint64_t accepted) {
      filled_by_ = by;
      backup_ = std::make_unique<Backup>(parts_.table, parts_.locks, parts_.clock, parts_.time, member_.epoch(), by,
                                         accepted);
      return backup_.get();
    };
    follower_ = std::make_unique<Follower>(endpoint_.get(), make, me);
  }
  if (!follower_->Dial(primary.address, kDialMs).ok()) follower_.reset();
}

// ---- As primary.

bool Group::Serve() {
  WatchBackups();
  if (deposed_ || HandOver()) return true;
  if (filling_ != nullptr) return Fill();
  FillOne();
  return filling_ != nullptr;
}

// Carries out what an operator wants: not before a backup that is a member, and is connected, has accepted a record of
// now. True: it has ended its part.
bool Group::HandOver() {
  {
    absl::MutexLock lock(&mutex_);
    if (!handover_) return false;
  }
  const auto followers = stream_.followers();
  bool may_come = false;
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation == options_.incarnation) continue;
    may_come = true;  // though it connects anew just now; who is gone is a member no more soon
    const auto found = followers.find(member.incarnation);
    if (found == followers.end() || found->second.connection == 0) continue;
    if (handover_record_ == 0 || found->second.accepted < handover_record_) continue;
    if (stream_.committed() < handover_record_ || member_.is_proposing()) continue;
    Depose("an operator wants another member to be primary");
    return true;
  }
  if (may_come) {
    if (handover_record_ == 0) handover_record_ = stream_.Append({});
    return false;
  }
  Log(LogLevel::kError, "not handed over: no backup is in sync any more", {{"epoch", member_.epoch()}});
  handover_record_ = 0;
  absl::MutexLock lock(&mutex_);
  handover_ = false;
  return false;
}

// Begins to fill one that joins, if there is one.
void Group::FillOne() {
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_ != 0) return;  // of one that was given up
  }
  for (const auto& [joiner, state] : stream_.followers()) {
    if (state.connection == 0 || member_.configuration().Find(joiner) != nullptr) continue;
    filling_ = std::make_unique<Filling>();
    filling_->joiner = joiner;
    filling_->address = state.address;
    const uint64_t from = filling_->from = state.from;
    filling_->refill = std::make_unique<Refill>(parts_.table, parts_.locks, parts_.gate, from);
    {
      absl::MutexLock lock(&mutex_);
      tasks_ += static_cast<int>(parts_.workers.size());
    }
    for (Worker* const worker : parts_.workers) {
      worker->Do([this, worker, from, rest = std::make_shared<OutcomesToTell>()] {
        if (!worker->TellOutcomes(from, rest.get())) return false;
        TaskDone();
        return true;
      });
    }
    Log(LogLevel::kInfo, "a server joins the group and is filled",
        {{"address", state.address}, {"incarnation", absl::Hex(joiner)}});
    return;
  }
}

// Some of it. False: it waits.
bool Group::Fill() {
  const auto followers = stream_.followers();
  const auto state = followers.find(filling_->joiner);
  // It was given up; or it joined again, and has not heard what came in between.
  if (state == followers.end() || state->second.from != filling_->from) {
    Log(LogLevel::kWarning, "the server that was filled is gone", {{"address", filling_->address}});
    filling_.reset();
    SetMembers();
    return true;
  }
  switch (filling_->refill->Step(kBucketsOfAStep)) {
    case Refill::Progress::kMore:
      return true;
    case Refill::Progress::kWaits:
      return false;
    case Refill::Progress::kDone:
      break;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_ != 0) return false;
  }
  if (filling_->caught_up == 0) {
    filling_->caught_up = 1;
    SetMembers();  // with it: from now on nothing is published that it has not accepted
    filling_->caught_up = std::max<uint64_t>(1, stream_.last());
    return true;
  }
  if (state->second.accepted < filling_->caught_up && stream_.last() != 0) return false;
  if (member_.configuration().Find(filling_->joiner) == nullptr) {
    if (Now() < propose_at_) return false;
    propose_at_ = Now() + kProposeAgain;
    Actions actions;
    const Replica joiner = {filling_->joiner, Replica::Kind::kBackup, filling_->address};
    if (absl::Status status = member_.Add(joiner, &actions); !status.ok()) return false;
    CarryOut(&actions);
    if (deposed_ || member_.configuration().Find(joiner.incarnation) == nullptr) return false;
    propose_at_ = absl::InfinitePast();
  }
  Log(LogLevel::kInfo, "a backup is in sync",
      {{"address", filling_->address}, {"items", filling_->refill->copies()}, {"epoch", member_.epoch()}});
  filling_.reset();
  SetMembers();
  return true;
}

// Gives up whoever is gone or stands still: until then writes wait for members, and records are kept for joiners.
void Group::WatchBackups() {
  const auto followers = stream_.followers();
  std::vector<Replica> gone;
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation == options_.incarnation) continue;
    const auto found = followers.find(member.incarnation);
    if (IsSuspect(member.incarnation, found == followers.end() ? nullptr : &found->second)) gone.push_back(member);
  }
  for (const auto& [joiner, state] : followers) {
    if (member_.configuration().Find(joiner) != nullptr || !IsSuspect(joiner, &state)) continue;
    Log(LogLevel::kWarning, "a server that joins is gone, or does not accept what it is sent, and is given up",
        {{"address", state.address}});
    stream_.Forget(joiner);
  }
  std::erase_if(watched_, [&](const auto& watched) {
    return !followers.contains(watched.first) && member_.configuration().Find(watched.first) == nullptr;
  });
  if (!gone.empty()) Remove(gone.front());
}

// Whether it has been gone, or stood still, for too long. Null: it does not follow.
bool Group::IsSuspect(uint64_t incarnation, const GroupStream::Follower* state) {
  const absl::Time now = Now();
  Watched& watched = watched_.try_emplace(incarnation, Watched{0, now, now}).first->second;
  if (state != nullptr && state->connection != 0) {
    watched.connected = now;
    if (state->accepted != watched.accepted || state->accepted == stream_.last()) watched.moved = now;
    watched.accepted = state->accepted;
  }
  return now - watched.connected >= kSuspicion || now - watched.moved >= kStandstill;
}

void Group::Remove(const Replica& backup) {
  if (Now() < propose_at_) return;
  propose_at_ = Now() + kProposeAgain;
  Actions actions;
  if (!member_.Remove(backup.incarnation, &actions).ok()) return;
  Log(LogLevel::kError, "a backup is gone, or does not accept what it is sent, and is removed from the group",
      {{"address", backup.address}, {"epoch", member_.epoch()}});
  const uint64_t removed = backup.incarnation;
  CarryOut(&actions);
  if (deposed_ || member_.configuration().Find(removed) != nullptr) return;
  propose_at_ = absl::InfinitePast();
  watched_.erase(removed);
  stream_.Forget(removed);
}

// ---- The thread.

absl::Time Group::Now() const { return absl::UnixEpoch() + absl::Nanoseconds(parts_.clock->NowNs()); }

void Group::Run() {
  if (entry_.revision != 0) {
    Learn(entry_);
  } else {
    Configuration first;
    first.group = Random();
    first.hash_seed = parts_.hash_seed;
    first.layout = options_.layout;
    // Where the kernel says that a process has ended, nobody waits for leases.
    if (!options_.url.locks().empty()) first.lease_us = cluster::kMinLeaseUs;
    first.members.push_back({options_.incarnation, Replica::Kind::kPrimary, parts_.address});
    Actions actions;
    if (absl::Status status = member_.Create(std::move(first), &actions); !status.ok()) Depose(status.message());
    CarryOut(&actions);
  }
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) break;
    }
    const bool did = !deposed_ && Turn();
    Describe();
    if (did) continue;
    pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (follower_ != nullptr) {
      if (!endpoint_->Arm()) continue;
      fds[1].fd = endpoint_->fd();
    }
    poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(kTick)));
    wake_.Clear();
  }
  follower_.reset();
  endpoint_.reset();
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
  return member_.Serves() ? Serve() : Follow();
}

// ---- For operators.

void Group::Describe() {
  std::string text = absl::StrCat("group ", options_.url.name, "\nepoch ", member_.epoch(), "\n");
  bool can_hand_over = false;
  const auto followers = stream_.followers();
  const auto describe = [&](absl::string_view role, uint64_t incarnation, absl::string_view address) {
    absl::StrAppend(&text, role, " ", address, " ", absl::Hex(incarnation, absl::kZeroPad16));
    const auto found = followers.find(incarnation);
    if (found != followers.end()) {
      absl::StrAppend(&text, " lag ", stream_.last() - std::min(stream_.last(), found->second.accepted),
                      found->second.connection != 0 ? "" : " disconnected");
      can_hand_over = can_hand_over || (role == "backup" && found->second.connection != 0);
    }
    absl::StrAppend(&text, "\n");
  };
  if (member_.epoch() != 0) {
    for (const Replica& member : member_.configuration().members) {
      describe(member.kind == Replica::Kind::kPrimary ? "primary" : "backup", member.incarnation, member.address);
    }
    for (const auto& [incarnation, state] : followers) {
      if (member_.configuration().Find(incarnation) == nullptr) describe("joining", incarnation, state.address);
    }
  }
  absl::MutexLock lock(&mutex_);
  status_ = std::move(text);
  can_hand_over_ = can_hand_over && member_.Serves();
}

std::string Group::Ask(absl::string_view what) {
  absl::MutexLock lock(&mutex_);
  if (what == "status") return absl::StrCat(status_, handover_ ? "handover begun\n" : "");
  uint64_t epoch = 0;
  if (!absl::ConsumePrefix(&what, "handover ") || !absl::SimpleAtoi(what, &epoch)) return "";
  if (epoch < led_since_) return "begun\n";  // by the primary before, which was asked
  // There nobody could take the place: see ProcessLock.
  if (options_.url.locks().empty()) return "refused: in a group of etcd no backup can become primary yet\n";
  if (!can_hand_over_) return "refused: no backup of the group is in sync: `cluster status` shows them\n";
  handover_ = true;
  wake_.Wake();
  return "begun\n";
}

}  // namespace farlook::server
