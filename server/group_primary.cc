// What a group's primary does for its backups: it fills those that join, hands over to one, and removes those that are
// gone, stand still or are slow. Called on the group's thread.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Actions;
using cluster::Configuration;
using cluster::Replica;

bool Group::Serve() {
  WatchBackups();
  if (deposed_ || HandOver() || Resize() || RemoveSurplus()) return true;
  const bool moved = ServeSlots();
  if (deposed_) return true;
  if (filling_ != nullptr) return Fill() || moved;
  FillOne();
  return filling_ != nullptr || moved;
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
  std::string why_not = "no backup is in sync any more, and connected";
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation == options_.incarnation) continue;
    may_come = true;  // though it connects anew just now; who is gone is a member no more soon
    const auto found = followers.find(member.incarnation);
    if (found == followers.end() || found->second.connection == 0) continue;
    if (handover_record_ == 0 || found->second.accepted < handover_record_) continue;
    if (stream_.committed() < handover_record_ || member_.is_proposing()) continue;
    // Nobody would be primary until the next one can change the record.
    if (absl::Status status = directory_->Get(options_.name, cluster::Freshness::kLatest).status(); !status.ok()) {
      why_not = absl::StrCat("the group's record cannot be read: ", status.message());
      may_come = false;
      break;
    }
    Depose("an operator wants another member to be primary");
    return true;
  }
  if (may_come && handover_record_ == 0) {
    handover_record_ = stream_.Append({.kind = cluster::Record::Kind::kOutcome});
    give_up_handover_at_ = Now() + kLongestHandover;
    return false;
  }
  // Where the record cannot be changed nobody is removed from it who does not come.
  if (may_come && Now() < give_up_handover_at_) return false;
  Log(LogLevel::kError, "not handed over", {{"reason", why_not}, {"epoch", member_.epoch()}});
  handover_record_ = 0;
  absl::MutexLock lock(&mutex_);
  handover_ = false;
  return false;
}

// "REPLICAS [MIN_INSYNC]"
std::string Group::AskForSize(absl::string_view what) {
  const auto refuse = [](absl::string_view why) { return absl::StrCat("refused: ", why, "\n"); };
  if (known_.epoch == 0) return refuse("this is not the group's primary");
  const std::vector<absl::string_view> words = absl::StrSplit(what, ' ');
  Size size = {0, known_.min_insync};
  if (words.size() > 2 || !absl::SimpleAtoi(words[0], &size.replicas) ||
      (words.size() == 2 && !absl::SimpleAtoi(words[1], &size.min_insync))) {
    return refuse("resize REPLICAS [MIN_INSYNC]");
  }
  if (size.replicas < 1 || size.replicas > cluster::kMaxReplicas || size.min_insync < 1) {
    return refuse(absl::StrCat("a group has from 1 to ", cluster::kMaxReplicas, " replicas, and at least 1 in sync"));
  }
  if (size.min_insync > size.replicas) {
    return refuse(absl::StrCat("of ", size.replicas, " replicas not ", size.min_insync,
                               " can be in sync: give --min_insync as well"));
  }
  if (size.min_insync > known_.members.size() && size.min_insync > known_.min_insync) {
    return refuse(absl::StrCat(known_.members.size(), " in sync at present: with --min_insync=", size.min_insync,
                               " no write would be acknowledged until more are; first raise the number of replicas"));
  }
  asked_.size = size;
  wake_.Wake();
  return "begun\n";
}

// Carries out what an operator wants; tries again until the record says so.
bool Group::Resize() {
  Size size;
  {
    absl::MutexLock lock(&mutex_);
    if (!asked_.size.has_value()) return false;
    size = *asked_.size;
  }
  const auto has_it = [this, size] {
    const Configuration& configuration = member_.configuration();
    return configuration.replicas == size.replicas && configuration.min_insync == size.min_insync;
  };
  if (!has_it()) {
    if (Now() < propose_at_) return false;
    propose_at_ = Now() + kProposeAgain;
    Actions actions;
    if (!member_.Resize(size.replicas, size.min_insync, &actions).ok()) return false;
    CarryOut(&actions);
    if (deposed_ || !has_it()) return false;
    propose_at_ = absl::InfinitePast();
    Log(LogLevel::kInfo, "the group has another size, as an operator wants it",
        {{"replicas", size.replicas}, {"min_insync", size.min_insync}, {"epoch", member_.epoch()}});
  }
  absl::MutexLock lock(&mutex_);
  asked_.size.reset();
  return true;
}

// Where an operator wants fewer members: one at a time, those first that lack most.
bool Group::RemoveSurplus() {
  const Configuration& configuration = member_.configuration();
  if (configuration.members.size() <= configuration.replicas || Now() < propose_at_) return false;
  propose_at_ = Now() + kProposeAgain;
  const auto followers = stream_.followers();
  const auto accepted = [&followers](const Replica& member) {
    const auto found = followers.find(member.incarnation);
    return found == followers.end() || found->second.connection == 0 ? 0 : found->second.accepted;
  };
  const Replica* last = nullptr;
  for (const Replica& member : configuration.members) {
    if (member.kind == Replica::Kind::kPrimary) continue;
    if (last == nullptr || accepted(member) < accepted(*last)) last = &member;
  }
  return TakeOut(last->incarnation, [this, address = last->address] {
    Log(LogLevel::kInfo, "a backup is a spare from now on, as the group is to have fewer members",
        {{"address", address}, {"epoch", member_.epoch()}});
  });
}

// Begins to fill one that joins, if there is one.
void Group::FillOne() {
  {
    absl::MutexLock lock(&mutex_);
    if (tasks_ != 0) return;  // of one that was given up
  }
  const Configuration& configuration = member_.configuration();
  if (configuration.members.size() >= configuration.replicas) return;  // who joins is a spare
  for (const auto& [joiner, state] : stream_.followers()) {
    if (state.connection == 0 || !state.waits || state.move != 0) continue;
    const absl::StatusOr<uint64_t> begun = stream_.Begin(joiner);
    if (!begun.ok()) continue;
    filling_ = std::make_unique<Filling>();
    filling_->joiner = joiner;
    filling_->address = state.address;
    const uint64_t from = filling_->from = *begun;
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

Refill::Progress Group::CopySome(Refill* refill) {
  if (!refill->is_done() && stream_.kept_bytes() > kCopiesAhead && Now() < copy_at_ &&
      stream_.AwaitRoom(kCopiesAhead / 2)) {
    return Refill::Progress::kWaits;
  }
  copy_at_ = Now() + kTick;
  return refill->Step(kBucketsOfACopyStep);
}

// Some of it. False: it waits.
bool Group::Fill() {
  const auto followers = stream_.followers();
  const auto state = followers.find(filling_->joiner);
  // It was given up; or it joined again, and has not heard what came in between.
  if (state == followers.end() || state->second.waits || state->second.from != filling_->from) {
    Log(LogLevel::kWarning, "the server that was filled is gone", {{"address", filling_->address}});
    filling_.reset();
    SetMembers();
    return true;
  }
  switch (CopySome(filling_->refill.get())) {
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
  // Copies are records too: a member that lacks some could become primary, and would have the joiner cut them off.
  if (stream_.committed() < filling_->caught_up && stream_.last() != 0) return false;
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

// Gives up whoever is gone, stands still or is slow: until then writes wait for members, and records are kept for
// joiners.
void Group::WatchBackups() {
  const auto followers = stream_.followers();
  const Replica* gone = nullptr;
  absl::string_view why;
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation == options_.incarnation) continue;
    const auto found = followers.find(member.incarnation);
    const absl::string_view trouble =
        See(member.incarnation, found == followers.end() ? GroupStream::Follower() : found->second);
    if (trouble.empty() || gone != nullptr) continue;
    gone = &member;
    why = trouble;
  }
  for (const auto& [joiner, state] : followers) {
    if (member_.configuration().Find(joiner) != nullptr) continue;
    const absl::string_view trouble = See(joiner, state);
    if (trouble.empty()) continue;
    Log(LogLevel::kWarning, "a server that joins is given up", {{"address", state.address}, {"reason", trouble}});
    stream_.Forget(joiner);
  }
  std::erase_if(watched_, [&](const auto& watched) {
    return !followers.contains(watched.first) && member_.configuration().Find(watched.first) == nullptr;
  });
  if (gone != nullptr) Remove(Replica(*gone), why);
}

absl::string_view Group::See(uint64_t incarnation, const GroupStream::Follower& state) {
  return watched_[incarnation].See({.is_connected = state.connection != 0,
                                    .waits = state.waits,
                                    .accepted = state.accepted,
                                    .last = stream_.last(),
                                    .may_be_slow = member_.configuration().Find(incarnation) == nullptr},
                                   Now());
}

void Group::Remove(const Replica& backup, absl::string_view why) {
  if (Now() < propose_at_) return;
  propose_at_ = Now() + kProposeAgain;
  failed_backup_ = backup.incarnation;
  TakeOut(backup.incarnation, [&] {
    Log(LogLevel::kError, "a backup is removed from the group",
        {{"address", backup.address}, {"reason", why}, {"epoch", member_.epoch()}});
  });
}

// False: the record could not be changed, or not yet. `log` tells of an attempt.
bool Group::TakeOut(uint64_t backup, const std::function<void()>& log) {
  Actions actions;
  if (!member_.Remove(backup, &actions).ok()) return false;
  log();
  leaving_ = backup;
  CarryOut(&actions);
  leaving_ = 0;
  if (deposed_ || member_.configuration().Find(backup) != nullptr) return false;
  propose_at_ = absl::InfinitePast();
  watched_.erase(backup);
  stream_.Forget(backup);
  return true;
}

}  // namespace farlook::server
