#include "server/group/operator_desk.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cluster/cluster_record.h"
#include "server/base/log.h"

namespace farlook::server {

using cluster::Actions;
using cluster::Configuration;
using cluster::Move;
using cluster::Replica;

namespace {

std::string Refuse(absl::string_view why) { return absl::StrCat("refused: ", why, "\n"); }

// Returns how many members must be in sync after a handover, which the former primary leaves. If all are needed, a
// whole group hands over nevertheless, as otherwise no primary could be restarted in order.
size_t LeastAfterHandover(const Configuration& group) {
  return std::max(uint32_t{1}, std::min(group.min_insync, group.replicas - 1));
}

}  // namespace

// ---- Questions, on any thread.

std::string OperatorDesk::Ask(absl::string_view question) {
  absl::MutexLock lock(&mutex_);
  if (question == "status") return absl::StrCat(status_, requests_.handover ? "handover begun\n" : "");
  if (question == "cancel") return AskToCancel();
  if (question == "leave") return AskToLeave();
  if (absl::ConsumePrefix(&question, "take ")) return AskToTake(question);
  if (absl::ConsumePrefix(&question, "resize ")) return AskForSize(question);
  if (absl::ConsumePrefix(&question, "handover ")) return AskForHandover(question);
  return "";
}

std::string OperatorDesk::AskForHandover(absl::string_view epoch_text) {
  uint64_t epoch = 0;
  if (!absl::SimpleAtoi(epoch_text, &epoch)) return "";
  if (epoch < led_since_) return "begun\n";  // by the former primary, which received the request
  if (!can_hand_over_) return "refused: no backup of the group is in sync: `cluster status` shows them\n";
  if (known_.members.size() <= LeastAfterHandover(known_)) {
    return Refuse(
        absl::StrCat(known_.members.size(),
                     " in sync at present: after a handover no write would be "
                     "acknowledged until a server is filled: first have more in sync, or reduce --min_insync"));
  }
  requests_.handover = true;
  wake_->Wake();
  return "begun\n";
}

// "REPLICAS [MIN_INSYNC]"
std::string OperatorDesk::AskForSize(absl::string_view text) {
  if (known_.epoch == 0) return Refuse("this is not the group's primary");
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  Size size = {0, known_.min_insync};
  if (words.size() > 2 || !absl::SimpleAtoi(words[0], &size.replicas) ||
      (words.size() == 2 && !absl::SimpleAtoi(words[1], &size.min_insync))) {
    return Refuse("resize REPLICAS [MIN_INSYNC]");
  }
  if (size.replicas < 1 || size.replicas > cluster::kMaxReplicas || size.min_insync < 1) {
    return Refuse(absl::StrCat("a group has from 1 to ", cluster::kMaxReplicas, " replicas, and at least 1 in sync"));
  }
  if (size.min_insync > size.replicas) {
    return Refuse(absl::StrCat("of ", size.replicas, " replicas not ", size.min_insync,
                               " can be in sync: give --min_insync as well"));
  }
  if (size.min_insync > known_.members.size() && size.min_insync > known_.min_insync) {
    return Refuse(absl::StrCat(known_.members.size(), " in sync at present: with --min_insync=", size.min_insync,
                               " no write would be acknowledged until more are; first raise the number of replicas"));
  }
  requests_.size = size;
  wake_->Wake();
  return "begun\n";
}

std::string OperatorDesk::AskToCancel() {
  const bool takes = std::any_of(known_.moves.begin(), known_.moves.end(),
                                 [](const Move& move) { return move.kind == Move::Kind::kTaking; });
  // The move may already be cancelled if the answer was lost and the question is repeated.
  if (!takes) return is_cancelled_ ? "begun\n" : "refused: the group takes no slots at present\n";
  requests_.cancel = is_cancelled_ = true;
  wake_->Wake();
  return "begun\n";
}

std::string OperatorDesk::AskToLeave() {
  if (known_.cluster.empty()) return Refuse("this is no primary of a cluster's group");
  if (known_.slots.any() || !known_.moves.empty() || requests_.take.has_value()) {
    return Refuse("a group can leave only without slots and moves");
  }
  requests_.leave = true;
  wake_->Wake();
  return "begun\n";
}

// "GROUP SLOTS"
std::string OperatorDesk::AskToTake(absl::string_view group_and_slots) {
  const std::vector<std::string> words = absl::StrSplit(group_and_slots, ' ');
  if (words.size() != 2) return Refuse("take GROUP SLOTS");
  if (known_.cluster.empty()) return Refuse("this is no primary of a cluster's group");
  const absl::StatusOr<kv::SlotSet> slots = kv::ParseSlots(words[1]);
  if (!slots.ok()) return Refuse(slots.status().message());
  if (words[0] == membership_->options().name || !kv::IsClusterName(words[0]) || slots->none()) {
    return Refuse("it takes slots, of another group");
  }
  std::vector<Move> moves = known_.moves;
  if (requests_.take.has_value()) moves.push_back(*requests_.take);
  for (const Move& move : moves) {
    if (move.kind == Move::Kind::kTaking && move.group == words[0] && move.slots == *slots) return "begun\n";
    if (move.kind == Move::Kind::kTaking)
      return Refuse(absl::StrCat("it takes slots of group ", move.group, " already"));
    if ((move.slots & *slots).any()) return Refuse("some of these slots are being given to another group");
  }
  if ((known_.slots & *slots).any()) return Refuse("the group has some of these slots");
  if (moves.size() >= cluster::kMaxMoves)
    return Refuse("the groups have not yet learned of the end of many moves; try again");
  requests_.take = Move{.id = cluster::RandomId(), .kind = Move::Kind::kTaking, .group = words[0], .slots = *slots};
  requests_.cancel = is_cancelled_ = false;
  failure_.clear();
  wake_->Wake();
  return "begun\n";
}

void OperatorDesk::SetFromCopy(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  requests_.from_copy = epoch;
  wake_->Wake();
}

// ---- The answers, from the group's thread.

void OperatorDesk::Update(std::string status, const GroupFigures& figures, bool can_hand_over) {
  const bool serves = membership_->member().Serves();
  absl::MutexLock lock(&mutex_);
  if (!failure_.empty()) absl::StrAppend(&status, "failed ", failure_, "\n");
  status_ = std::move(status);
  figures_ = figures;
  known_ = serves ? membership_->configuration() : Configuration();
  can_hand_over_ = can_hand_over && serves;
}

void OperatorDesk::EndMoveRequest(absl::string_view failure) {
  absl::MutexLock lock(&mutex_);
  requests_.take.reset();
  if (!failure.empty()) failure_ = std::string(failure);
}

void OperatorDesk::SetMoveFailure(absl::string_view failure) {
  absl::MutexLock lock(&mutex_);
  failure_ = std::string(failure);
}

bool OperatorDesk::TakeCancel() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(requests_.cancel, false);
}

// ---- Requests, on the group's thread.

bool OperatorDesk::HandOver() {
  {
    absl::MutexLock lock(&mutex_);
    if (!requests_.handover) return false;
  }
  GroupStream* const stream = membership_->stream();
  const auto followers = stream->followers();
  bool may_come = false;
  std::string why_not = "too few connected backups are in sync";
  size_t ready = 0;
  for (const Replica& member : membership_->configuration().members) {
    if (member.incarnation == membership_->options().incarnation) continue;
    may_come = true;  // it may be reconnecting; a member that is gone is removed soon
    const auto found = followers.find(member.incarnation);
    if (found == followers.end() || found->second.connection == 0) continue;
    if (handover_record_ == 0 || found->second.accepted < handover_record_) continue;
    if (stream->committed() < handover_record_ || membership_->member().is_proposing()) continue;
    if (++ready < LeastAfterHandover(membership_->configuration())) continue;
    // There would be no primary until the next one can change the record.
    const auto entry = membership_->directory()->Get(membership_->options().name, cluster::Freshness::kLatest);
    if (!entry.ok()) {
      why_not = absl::StrCat("the group's record cannot be read: ", entry.status().message());
      may_come = false;
      break;
    }
    membership_->Depose("an operator requested a handover");
    return true;
  }
  if (may_come && handover_record_ == 0) {
    handover_record_ = stream->Append({.kind = cluster::Record::Kind::kOutcome});
    give_up_handover_at_ = membership_->Now() + kLongestHandover;
    return false;
  }
  // While the record cannot be changed, a member that does not connect stays in it: hence the limit.
  if (may_come && membership_->Now() < give_up_handover_at_) return false;
  Log(LogLevel::kError, "not handed over", {{"reason", why_not}, {"epoch", membership_->member().epoch()}});
  handover_record_ = 0;
  absl::MutexLock lock(&mutex_);
  requests_.handover = false;
  return false;
}

bool OperatorDesk::Resize() {
  Size size;
  {
    absl::MutexLock lock(&mutex_);
    if (!requests_.size.has_value()) return false;
    size = *requests_.size;
  }
  const auto has_it = [this, size] {
    const Configuration& configuration = membership_->configuration();
    return configuration.replicas == size.replicas && configuration.min_insync == size.min_insync;
  };
  if (!has_it()) {
    if (!membership_->BeginProposal()) return false;
    Actions actions;
    if (!membership_->mutable_member()->Resize(size.replicas, size.min_insync, &actions).ok()) return false;
    membership_->CarryOut(&actions);
    if (membership_->is_deposed() || !has_it()) return false;
    membership_->EndProposal();
    Log(LogLevel::kInfo, "an operator changed the size of the group",
        {{"replicas", size.replicas}, {"min_insync", size.min_insync}, {"epoch", membership_->member().epoch()}});
  }
  absl::MutexLock lock(&mutex_);
  requests_.size.reset();
  return true;
}

void OperatorDesk::Leave() {
  {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(requests_.leave, false)) return;
  }
  const std::string& cluster = membership_->configuration().cluster;
  const absl::Status status = cluster::LeaveCluster(membership_->directory(), cluster, membership_->options().name);
  Log(status.ok() ? LogLevel::kInfo : LogLevel::kError,
      status.ok() ? "the group has left its cluster" : "the group cannot leave its cluster",
      {{"cluster", cluster}, {"reason", status.message()}});
}

}  // namespace farlook::server
