#include "server/group/backup_keeper.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/log.h"
#include "server/session/session.h"

namespace farlook::server {

using cluster::Actions;
using cluster::Configuration;
using cluster::Replica;

// ---- Backups in trouble.

void BackupKeeper::Watch() {
  const auto followers = membership_->stream()->followers();
  const Configuration& configuration = membership_->configuration();
  const Replica* gone = nullptr;
  absl::string_view why;
  for (const Replica& member : configuration.members) {
    if (member.incarnation == membership_->options().incarnation) continue;
    const auto found = followers.find(member.incarnation);
    const absl::string_view trouble =
        Look(member.incarnation, member.address, found == followers.end() ? GroupStream::Follower() : found->second);
    if (trouble.empty() && kept_ == member.incarnation) kept_ = 0;
    if (trouble.empty() || gone != nullptr || KeepsCopy(member, trouble)) continue;
    gone = &member;
    why = trouble;
  }
  has_takers_ = false;
  for (const auto& [joiner, state] : followers) {
    if (configuration.Find(joiner) != nullptr) continue;
    has_takers_ = has_takers_ || state.move != 0;
    // The address of a taker of slots is that of its group's primary, by now perhaps another one.
    const absl::string_view trouble = Look(joiner, state.move == 0 ? state.address : "", state);
    if (trouble.empty()) continue;
    Log(LogLevel::kWarning, "gave up on a server that was joining", {{"address", state.address}, {"reason", trouble}});
    membership_->stream()->Forget(joiner);
  }
  ForgetTheAbsent(followers);
  if (gone != nullptr) Remove(Replica(*gone), why);
}

void BackupKeeper::ForgetTheAbsent(const std::map<uint64_t, GroupStream::Follower>& followers) {
  const auto is_absent = [&](const auto& known) {
    return !followers.contains(known.first) && membership_->configuration().Find(known.first) == nullptr;
  };
  std::erase_if(watched_, is_absent);
  std::erase_if(probes_, is_absent);
}

absl::string_view BackupKeeper::Look(uint64_t incarnation, const std::string& address,
                                     const GroupStream::Follower& state) {
  const bool is_connected = state.connection != 0;
  if (is_connected) probes_.erase(incarnation);
  // Each may have another --suspicion, and says so soon. A joiner that waits sends nothing.
  absl::Duration patience = absl::InfiniteDuration();
  if (membership_->configuration().Find(incarnation) != nullptr) {
    patience = std::max(membership_->options().suspicion,
                        state.silence_ms == 0 ? BackupWatch::kStandstill : 4 * absl::Milliseconds(state.silence_ms));
  }
  return watched_[incarnation].See({.is_connected = is_connected,
                                    .leaves = state.leaves,
                                    .has_ended = !is_connected && HasEnded(incarnation, address),
                                    .heard = state.heard,
                                    .patience = patience,
                                    .refused = state.refused,
                                    .waits = state.waits,
                                    .accepted = state.accepted,
                                    .last = membership_->stream()->last(),
                                    .may_be_slow = membership_->configuration().Find(incarnation) == nullptr},
                                   membership_->Now());
}

// Returns whether a member in trouble stays in the record. With fewer members than --min_insync no write would be
// acknowledged after the removal either, so it would gain nothing for writes, and a copy would be lost with it.
bool BackupKeeper::KeepsCopy(const Replica& backup, absl::string_view why) {
  const Configuration& configuration = membership_->configuration();
  // A promoter serves nothing before each other member has answered or is removed.
  if (!membership_->member().Serves() || configuration.members.size() > configuration.min_insync) return false;
  // Writes continue as soon as another server is filled, which takes its place.
  const auto followers = membership_->stream()->followers();
  const bool is_replaced = std::any_of(followers.begin(), followers.end(), [&](const auto& follower) {
    return follower.second.connection != 0 && follower.second.move == 0 &&
           configuration.Find(follower.first) == nullptr;
  });
  if (is_replaced) return false;
  // A process that has ended has no copy, nor will one that is ending.
  if (why == BackupWatch::kLeaves || LockShowsEnd(backup.incarnation)) return false;
  if (std::exchange(kept_, backup.incarnation) != backup.incarnation) {
    Log(LogLevel::kError, "a backup does not answer, and reads and writes wait for it",
        {{"address", backup.address},
         {"reason", why},
         {"in_sync", configuration.members.size()},
         {"min_insync", configuration.min_insync},
         {"advice",
          "start this server or another one; to continue with fewer copies, reduce --min_insync with "
          "kv_cli cluster resize"}});
  }
  return true;
}

bool BackupKeeper::LockShowsEnd(uint64_t incarnation) const {
  const auto& has_ended = membership_->options().has_ended;
  return has_ended && has_ended(incarnation).value_or(false);
}

// Returns whether the process has ended: the kernel says so, or its host refuses a connection.
bool BackupKeeper::HasEnded(uint64_t incarnation, const std::string& address) {
  if (LockShowsEnd(incarnation)) return true;
  if (address.empty()) return false;
  const auto probe = probes_.try_emplace(incarnation, ProcessProbe::Question::kHasEnded, address, incarnation).first;
  return probe->second.Ask(membership_->parts().create_endpoint, membership_->Now());
}

void BackupKeeper::Remove(const Replica& backup, absl::string_view why) {
  if (!membership_->BeginProposal()) return;
  if (why == BackupWatch::kLeaves) {
    TakeOut(backup.incarnation, [&] {
      Log(LogLevel::kInfo, "a backup leaves the group",
          {{"address", backup.address}, {"epoch", membership_->member().epoch()}});
    });
    return;
  }
  failed_ = backup.incarnation;
  TakeOut(backup.incarnation, [&] {
    Log(LogLevel::kError, "removing a backup from the group",
        {{"address", backup.address}, {"reason", why}, {"epoch", membership_->member().epoch()}});
  });
}

bool BackupKeeper::RemoveSurplus() {
  const Configuration& configuration = membership_->configuration();
  if (configuration.members.size() <= configuration.replicas || !membership_->BeginProposal()) return false;
  const auto followers = membership_->stream()->followers();
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
    Log(LogLevel::kInfo, "a backup becomes a spare: the group has more members than --replicas",
        {{"address", address}, {"epoch", membership_->member().epoch()}});
  });
}

// Returns whether the record has changed. `log` logs the attempt.
bool BackupKeeper::TakeOut(uint64_t backup, absl::FunctionRef<void()> log) {
  Actions actions;
  if (!membership_->mutable_member()->Remove(backup, &actions).ok()) return false;
  log();
  leaving_ = backup;
  membership_->CarryOut(&actions);
  leaving_ = 0;
  if (membership_->is_deposed() || membership_->configuration().Find(backup) != nullptr) return false;
  membership_->EndProposal();
  watched_.erase(backup);
  membership_->stream()->Forget(backup);
  return true;
}

uint64_t BackupKeeper::CountRemoved() {
  const bool is_removed =
      failed_ != 0 && membership_->member().Serves() && membership_->configuration().Find(failed_) == nullptr;
  if (is_removed) {
    failed_ = 0;
    ++removed_;
  }
  return removed_;
}

absl::Duration BackupKeeper::Behind() const {
  absl::Duration behind;
  for (const Replica& member : membership_->configuration().members) {
    if (const auto found = watched_.find(member.incarnation); found != watched_.end()) {
      behind = std::max(behind, found->second.behind());
    }
  }
  return behind;
}

absl::Duration BackupKeeper::GoneFor(uint64_t incarnation) const {
  const auto found = watched_.find(incarnation);
  return found == watched_.end() ? absl::ZeroDuration() : found->second.gone();
}

// ---- Joiners.

// The number of keys now is an estimate of that of copies.
uint64_t BackupKeeper::FilledPercent() const {
  if (filling_ == nullptr) return 0;
  const uint64_t keys = std::max<uint64_t>(1, membership_->parts().table->stats().keys);
  return std::min<uint64_t>(100, 100 * filling_->sender->copies() / keys);
}

bool BackupKeeper::FillJoiners() {
  if (filling_ != nullptr) return Fill();
  BeginFilling();
  return filling_ != nullptr;
}

void BackupKeeper::BeginFilling() {
  if (!tasks_->are_done()) return;  // outcomes are still being sent to a joiner that was given up
  const Configuration& configuration = membership_->configuration();
  if (configuration.members.size() >= configuration.replicas) return;  // a joiner is a spare
  for (const auto& [joiner, state] : membership_->stream()->followers()) {
    if (state.connection == 0 || !state.waits || state.move != 0) continue;
    const absl::StatusOr<uint64_t> begun = membership_->stream()->Begin(joiner);
    if (!begun.ok()) continue;
    const GroupParts& parts = membership_->parts();
    filling_ = std::make_unique<Filling>();
    filling_->joiner = joiner;
    filling_->address = state.address;
    filling_->from = *begun;
    filling_->sender = std::make_unique<SnapshotSender>(parts.table, parts.locks, parts.gate, *begun);
    SendOutcomes(*begun);
    Log(LogLevel::kInfo, "a server joins the group and is filled",
        {{"address", state.address}, {"incarnation", absl::Hex(joiner)}});
    return;
  }
}

// Makes each worker append the outcomes of requests that its clients may retry.
void BackupKeeper::SendOutcomes(uint64_t from) {
  for (Worker* const worker : membership_->parts().workers) {
    tasks_->Start(worker, [worker, from, rest = std::make_shared<OutcomesToReport>()] {
      return worker->AppendReplies(from, rest.get());
    });
  }
}

// Returns whether it did something; otherwise it waits.
bool BackupKeeper::Fill() {
  GroupStream* const stream = membership_->stream();
  const auto followers = stream->followers();
  const auto state = followers.find(filling_->joiner);
  // It was given up; or it joined again, and lacks the records in between.
  if (state == followers.end() || state->second.waits || state->second.from != filling_->from) {
    Log(LogLevel::kWarning, "the server that was filled is gone", {{"address", filling_->address}});
    filling_.reset();
    membership_->SetJoiner(0);
    return true;
  }
  switch (pace_->Step(filling_->sender.get())) {
    case SnapshotSender::Progress::kMore:
      return true;
    case SnapshotSender::Progress::kWaits:
      return false;
    case SnapshotSender::Progress::kDone:
      break;
  }
  if (!tasks_->are_done()) return false;
  if (filling_->caught_up == 0) {
    membership_->SetJoiner(filling_->joiner);  // from now on its acceptance is required to publish
    filling_->caught_up = std::max<uint64_t>(1, stream->last());
    return true;
  }
  if (state->second.accepted < filling_->caught_up && stream->last() != 0) return false;
  // Copies are records too: a member that lacks some could become primary, and would make the joiner discard them.
  if (stream->committed() < filling_->caught_up && stream->last() != 0) return false;
  if (membership_->configuration().Find(filling_->joiner) == nullptr && !Add()) return false;
  Log(LogLevel::kInfo, "a backup is in sync",
      {{"address", filling_->address},
       {"items", filling_->sender->copies()},
       {"epoch", membership_->member().epoch()}});
  filling_.reset();
  membership_->SetJoiner(0);
  return true;
}

// Returns whether the joiner has become a member.
bool BackupKeeper::Add() {
  if (!membership_->BeginProposal()) return false;
  Actions actions;
  const Replica joiner = {filling_->joiner, Replica::Kind::kBackup, filling_->address};
  if (!membership_->mutable_member()->Add(joiner, &actions).ok()) return false;
  membership_->CarryOut(&actions);
  if (membership_->is_deposed() || membership_->configuration().Find(joiner.incarnation) == nullptr) return false;
  membership_->EndProposal();
  return true;
}

// ---- The promoter's log.

void BackupKeeper::ShareTail(const Backup* backup) {
  watched_.clear();
  probes_.clear();
  std::deque<cluster::Record> tail;
  if (backup != nullptr) tail = backup->stream().tail();
  const cluster::Member& member = membership_->member();
  membership_->stream()->Lead(member.epoch(), membership_->options().incarnation,
                              backup == nullptr ? 1 : backup->accepted() + 1, tail, member.MustAccept());
  membership_->SetJoiner(0);
}

bool BackupKeeper::AllAgree() const {
  const auto followers = membership_->stream()->followers();
  const std::vector<uint64_t> others = membership_->member().MustAccept();
  return std::all_of(others.begin(), others.end(), [&](uint64_t member) {
    const auto found = followers.find(member);
    return found != followers.end() && found->second.connection != 0 &&
           found->second.accepted == membership_->stream()->last();
  });
}

bool BackupKeeper::AwaitTail() {
  Watch();
  if (membership_->is_deposed() || !AllAgree()) return false;
  Actions actions;
  membership_->mutable_member()->TailAccepted(membership_->member().epoch(), membership_->Now(), &actions);
  const bool serves = !actions.empty();
  membership_->CarryOut(&actions);
  return serves;
}

}  // namespace farlook::server
