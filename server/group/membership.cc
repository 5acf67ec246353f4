#include "server/group/membership.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::server {

using cluster::Action;
using cluster::Actions;
using cluster::Configuration;
using cluster::Member;
using cluster::Replica;

Membership::Membership(GroupOptions options, std::unique_ptr<cluster::Directory> directory)
    : options_(std::move(options)), directory_(std::move(directory)), member_(options_.incarnation) {}

void Membership::Attach(GroupParts parts, cluster::TableLayout layout, MembershipEvents* events) {
  parts_ = std::move(parts);
  layout_ = layout;
  events_ = events;
}

absl::Time Membership::Now() const { return absl::UnixEpoch() + absl::Nanoseconds(parts_.clock->NowNs()); }

// ---- The record.

void Membership::Create(Configuration first) {
  Actions actions;
  if (absl::Status status = member_.Create(std::move(first), &actions); !status.ok()) Depose(status.message());
  CarryOut(&actions);
}

void Membership::Enqueue(cluster::Entry entry) {
  absl::MutexLock lock(&mutex_);
  queued_.push_back(std::move(entry));
}

void Membership::LearnQueued() {
  std::deque<cluster::Entry> queued;
  {
    absl::MutexLock lock(&mutex_);
    queued.swap(queued_);
  }
  for (const cluster::Entry& entry : queued) {
    if (!deposed_) Learn(entry);
  }
}

void Membership::Learn(const cluster::Entry& entry) {
  absl::StatusOr<Configuration> configuration = cluster::DecodeConfiguration(entry.value);
  absl::Status status = configuration.status();
  Actions actions;
  const uint64_t before = member_.epoch();
  const uint64_t former = before == 0 ? 0 : member_.configuration().primary().incarnation;
  if (status.ok()) status = member_.Learn(entry.revision, *configuration, &actions);
  if (!status.ok()) {
    Log(LogLevel::kError, "the group's record is ignored", {{"reason", status.message()}});
    return;
  }
  if (member_.epoch() != before && configuration->hash_seed != parts_.hash_seed) {
    return Depose("the group's tables have another hash seed");
  }
  if (member_.epoch() != before && configuration->layout != layout_) {
    return Depose("the group's tables have another layout");
  }
  if (actions.empty()) Publish();  // a joiner redirects its clients, too
  CarryOut(&actions);
  if (member_.epoch() == before || deposed_ || member_.Serves()) return;
  if (member_.configuration().primary().incarnation != options_.incarnation) events_->OnFollow(former);
}

void Membership::Tick() {
  Actions actions;
  member_.Tick(Now(), &actions);
  if (actions.empty() && Now() >= retry_at_) {
    member_.Retry(&actions);
    if (!actions.empty()) retry_at_ = Now() + kProposeAgain;
  }
  CarryOut(&actions);
}

// ---- Changes.

bool Membership::BeginProposal() {
  if (Now() < propose_at_) return false;
  propose_at_ = Now() + kProposeAgain;
  return true;
}

bool Membership::Reassign(const kv::SlotSet& slots, std::vector<cluster::Move> moves) {
  if (!BeginProposal()) return false;
  const uint64_t before = member_.epoch();
  Actions actions;
  if (absl::Status status = member_.Reassign(slots, std::move(moves), &actions); !status.ok()) {
    if (absl::IsInvalidArgument(status)) Log(LogLevel::kError, "slots", {{"reason", status.message()}});
    return false;
  }
  CarryOut(&actions);
  if (deposed_ || member_.epoch() == before) return false;
  EndProposal();
  stream_.notifier()->NotifyTurn();  // requests that wait for a key of another group are answered now
  return true;
}

void Membership::CarryOut(Actions* actions) {
  while (!actions->empty() && !deposed_) {
    Actions more;
    const Action action = std::move(actions->front());
    actions->erase(actions->begin());
    CarryOutOne(action, &more);
    actions->insert(actions->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    Publish();
  }
}

void Membership::CarryOutOne(const Action& action, Actions* more) {
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
      if (entry.ok()) Enqueue(*std::move(entry));
      return;
    }
    case Action::Kind::kShareTail:
      if (events_->OnShareTail()) member_.TailAccepted(member_.epoch(), Now(), more);
      return;
    case Action::Kind::kPublishTail:
      if (absl::Status status = events_->OnPublishTail(); !status.ok()) Depose(status.message());
      return;
    case Action::Kind::kServe:
      return events_->OnLead();
    case Action::Kind::kStepDown:
      return Depose("it is no longer a member of the group");
  }
}

// ---- Consequences.

void Membership::Publish() {
  if (member_.epoch() == 0) return;
  const Configuration& configuration = member_.configuration();
  const std::string& primary = configuration.primary().address;
  std::vector<std::string> addresses = {primary};
  for (const Replica& member : configuration.members) {
    if (member.kind != Replica::Kind::kPrimary) addresses.push_back(member.address);
  }
  serving_.Announce({.primary = deposed_ ? "" : primary,
                     .members = absl::StrJoin(addresses, ","),
                     .epoch = configuration.epoch,
                     .lease_us = configuration.lease_us,
                     // Another group at the same addresses has another number.
                     .history = configuration.group + configuration.history,
                     .cluster = configuration.cluster,
                     .slots = kv::WordsOf(configuration.slots)});
  PublishSlots();
  // Before waiting requests continue: after a write that a removal let through, an operator must not see that member.
  events_->OnPublish();
  const bool takes_writes = configuration.members.size() >= configuration.min_insync;
  const bool took = serving_.takes_writes();
  // Before removed members no longer count: from then on too few members have what is committed.
  if (!takes_writes) serving_.SetTakesWrites(false);
  if (member_.Serves() || member_.role() == Member::Role::kPromoting) {
    stream_.SetRecord(member_.revision(), cluster::EncodeConfiguration(configuration));
  }
  if (member_.Serves()) {
    stream_.EnterEpoch(member_.epoch());
    SetMembers();
  }
  if (takes_writes == took) return;
  if (takes_writes) {
    serving_.SetTakesWrites(true);
    return stream_.notifier()->NotifyTurn();  // waiting writes continue
  }
  if (!member_.Serves() && member_.role() != Member::Role::kPromoting) return;
  Log(LogLevel::kError, "writes wait until more members are in sync",
      {{"in_sync", configuration.members.size()}, {"min_insync", configuration.min_insync}});
}

void Membership::SetMembers() {
  if (!member_.Serves() && member_.role() != Member::Role::kPromoting) return;
  std::vector<uint64_t> must_accept = member_.MustAccept();
  if (joiner_ != 0) must_accept.push_back(joiner_);
  stream_.SetMembers(std::move(must_accept));
}

void Membership::SetJoiner(uint64_t joiner) {
  joiner_ = joiner;
  SetMembers();
}

void Membership::PublishSlots() {
  const Configuration& configuration = member_.configuration();
  if (configuration.cluster.empty()) return;
  serving_.SetSlots(configuration.slots & ~closed_);
  cluster_watch_.SetOwn(configuration);
}

void Membership::Depose(absl::string_view why) {
  if (std::exchange(deposed_, true)) return;
  serving_.Set(false);
  Publish();
  if (leaves_) {
    Log(LogLevel::kInfo, "this server has left the group", {{"group", options_.name}});
    return;
  }
  Log(LogLevel::kWarning, "this server leaves the group and restarts", {{"reason", why}});
  parts_.deposed();
}

// ---- Other readers of the directory.

absl::StatusOr<Configuration> Membership::ReadGroup(const std::string& name) {
  const absl::StatusOr<cluster::Entry> entry = directory_->Get(name, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  if (entry->revision == 0) return absl::NotFoundError(absl::StrCat("there is no group ", name));
  absl::StatusOr<Configuration> group = cluster::DecodeConfiguration(entry->value);
  if (group.ok() && group->cluster != member_.configuration().cluster) {
    return absl::NotFoundError(absl::StrCat("group ", name, " is not of this cluster"));
  }
  return group;
}

bool Membership::LockProvesEnd(absl::string_view address) const {
  return options_.has_ended && !absl::StartsWith(address, "rdma:");
}

void Membership::RecordDeparture() {
  if (LockProvesEnd(parts_.address)) return;
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
  Log(LogLevel::kInfo, "the group's record shows that this primary has left", {{"epoch", next->epoch}});
}

}  // namespace farlook::server
