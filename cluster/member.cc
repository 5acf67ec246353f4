#include "cluster/member.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::cluster {
namespace {

using Kind = Action::Kind;

bool IsPrimary(const Configuration& configuration, uint64_t incarnation) {
  const Replica* const member = configuration.Find(incarnation);
  return member != nullptr && member->kind == Replica::Kind::kPrimary;
}

}  // namespace

absl::Status Member::Learn(uint64_t revision, const Configuration& configuration, Actions* actions) {
  if (role_ == Role::kDeposed || revision <= revision_) return absl::OkStatus();
  if (absl::Status status = configuration.Check(); !status.ok()) return status;
  if (configuration_.group != 0 && configuration.group != configuration_.group) {
    return absl::FailedPreconditionError(
        absl::StrCat("the directory has another group of this name: ", absl::Hex(configuration.group), ", and not ",
                     absl::Hex(configuration_.group), "; give each group a name of its own"));
  }
  if (configuration.epoch <= configuration_.epoch) {
    return absl::DataLossError(absl::StrCat("epoch ", configuration.epoch, " of the group came after epoch ",
                                            configuration_.epoch, ": another process wrote its record"));
  }
  const bool was_member = role_ != Role::kJoining;
  const bool proposed = is_sent_ && configuration == proposal_;
  revision_ = revision;
  configuration_ = configuration;
  if (proposed) {
    Won(actions);
    return absl::OkStatus();
  }
  proposal_ = {};
  if (configuration.Find(incarnation_) == nullptr) {
    if (role_ == Role::kBackup) {
      // Its copy may be the last one of what was acknowledged.
      role_ = Role::kRemoved;
      StoreWord(EpochWord::Shut(word_.epoch()), actions);
    } else if (was_member && role_ != Role::kRemoved) {
      StepDown(actions);
    }
  } else if (IsPrimary(configuration, incarnation_) || role_ == Role::kPrimary || role_ == Role::kPromoting ||
             role_ == Role::kRemoved) {
    // A primary stays one, or steps down: its table may have writes that its successor's lacks.
    StepDown(actions);
  } else {
    role_ = Role::kBackup;
    StoreWord(EpochWord::Open(configuration.epoch), actions);
  }
  return absl::OkStatus();
}

absl::Status Member::Create(Configuration first, Actions* actions) {
  if (role_ != Role::kJoining || revision_ != 0 || is_proposing() || is_awaited_) {
    return absl::FailedPreconditionError("the group is there already");
  }
  first.epoch = first.history = 1;
  if (absl::Status status = first.Check(); !status.ok()) return status;
  if (first.members.size() != 1 || !IsPrimary(first, incarnation_)) {
    return absl::InvalidArgumentError("a new group begins with its first primary");
  }
  ended_ = true;  // there was none before
  return Propose(std::move(first), actions);
}

absl::Status Member::BeginAnew(absl::string_view address, const Limits& limits, bool ended, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kJoining, Role::kRemoved}); !status.ok()) return status;
  if (revision_ == 0) return absl::FailedPreconditionError("there is no group yet");
  ended_ = ended;
  Configuration next = configuration_;
  next.members = {{incarnation_, Replica::Kind::kPrimary, std::string(address)}};
  next.limits = limits;
  next.history = next.epoch + 1;  // that of the proposal
  // Items that were copied for slots not yet owned are lost too; their owner still has them.
  std::erase_if(next.moves, [](const Move& move) { return move.kind == Move::Kind::kTaking; });
  return Propose(std::move(next), actions);
}

absl::Status Member::CheckMayPropose(std::initializer_list<Role> as) const {
  if (is_proposing() || is_awaited_) {
    return absl::FailedPreconditionError("another proposal's outcome is not certain yet");
  }
  if (std::find(as.begin(), as.end(), role_) == as.end()) {
    return absl::FailedPreconditionError(*as.begin() == Role::kBackup ? "it is no backup in sync"
                                                                      : "it is not the primary");
  }
  return absl::OkStatus();
}

absl::Status Member::Promote(const std::vector<uint64_t>& lost, bool ended, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kBackup}); !status.ok()) return status;
  ended_ = ended || configuration_.primary_left;
  Configuration next = configuration_;
  std::erase_if(next.members, [this, &lost](const Replica& member) {
    return member.kind == Replica::Kind::kPrimary ||
           (member.incarnation != incarnation_ &&
            std::find(lost.begin(), lost.end(), member.incarnation) != lost.end());
  });
  for (Replica& member : next.members) {
    if (member.incarnation == incarnation_) member.kind = Replica::Kind::kPrimary;
  }
  return Propose(std::move(next), actions);
}

absl::Status Member::Remove(uint64_t incarnation, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kPrimary, Role::kPromoting}); !status.ok()) return status;
  Configuration next = configuration_;
  std::erase_if(next.members, [incarnation](const Replica& member) { return member.incarnation == incarnation; });
  if (incarnation == incarnation_ || next.members.size() == configuration_.members.size()) {
    return absl::InvalidArgumentError(absl::StrCat(absl::Hex(incarnation), " is no backup of the group"));
  }
  return Propose(std::move(next), actions);
}

absl::Status Member::Add(Replica joiner, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kPrimary}); !status.ok()) return status;
  Configuration next = configuration_;
  joiner.kind = Replica::Kind::kBackup;
  next.members.push_back(std::move(joiner));
  return Propose(std::move(next), actions);
}

absl::Status Member::Reassign(const kv::SlotSet& slots, std::vector<Move> moves, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kPrimary}); !status.ok()) return status;
  Configuration next = configuration_;
  next.slots = slots;
  next.moves = std::move(moves);
  return Propose(std::move(next), actions);
}

absl::Status Member::Resize(uint32_t replicas, uint32_t min_insync, Actions* actions) {
  if (absl::Status status = CheckMayPropose({Role::kPrimary}); !status.ok()) return status;
  Configuration next = configuration_;
  next.replicas = replicas;
  next.min_insync = min_insync;
  return Propose(std::move(next), actions);
}

std::optional<Configuration> Member::AfterLeaving(const Configuration& last, uint64_t incarnation) {
  if (last.primary().incarnation != incarnation || last.members.size() == 1 || last.primary_left) return std::nullopt;
  Configuration next = last;
  ++next.epoch;
  next.primary_left = true;
  return next;
}

absl::Status Member::Propose(Configuration next, Actions* actions) {
  next.epoch = configuration_.epoch + 1;
  next.primary_left = false;  // of a former one
  if (absl::Status status = next.Check(); !status.ok()) return status;
  proposal_ = std::move(next);
  is_sent_ = false;
  maybe_done_ = false;
  shut_at_ = absl::InfiniteFuture();
  StoreWord(EpochWord::Shut(configuration_.epoch), actions);
  return absl::OkStatus();
}

void Member::Stored(absl::Time now, Actions* actions) {
  if (!is_proposing() || is_sent_) return;
  shut_at_ = now;
  is_sent_ = true;
  SendProposal(actions);
}

void Member::SendProposal(Actions* actions) {
  is_awaited_ = true;
  actions->push_back({.kind = Kind::kCas, .expected = revision_, .record = EncodeConfiguration(proposal_)});
}

void Member::Retry(Actions* actions) {
  if (!is_proposing() || !is_sent_ || is_awaited_) return;
  // The record that it reads settles the outcome; if nothing changed, the same proposal is sent again.
  actions->push_back({.kind = Kind::kRead});
  SendProposal(actions);
}

void Member::Swapped(const CasResult& result, Actions* actions) {
  is_awaited_ = false;
  // A record that was learned in the meantime has settled it.
  if (!is_proposing()) return;
  switch (result.outcome) {
    case CasOutcome::kDone:
      revision_ = result.revision;
      configuration_ = proposal_;
      Won(actions);
      return;
    case CasOutcome::kConflict:
      // Another member's, or its own although the answer was lost: the record shows which.
      actions->push_back({.kind = Kind::kRead});
      return;
    case CasOutcome::kUnknown:
      maybe_done_ = true;
      return;
    case CasOutcome::kNotDone:
      if (maybe_done_) return;
      proposal_ = {};
      // A promoter opens when its tail is accepted.
      if (role_ == Role::kPrimary || role_ == Role::kBackup) StoreWord(EpochWord::Open(configuration_.epoch), actions);
      return;
  }
}

void Member::Won(Actions* actions) {
  proposal_ = {};
  if (role_ == Role::kPrimary) {
    StoreWord(EpochWord::Open(configuration_.epoch), actions);
    return;
  }
  role_ = Role::kPromoting;
  tail_accepted_ = false;
  actions->push_back({.kind = Kind::kShareTail});
}

void Member::TailAccepted(uint64_t epoch, absl::Time now, Actions* actions) {
  if (role_ != Role::kPromoting || epoch != configuration_.epoch) return;
  tail_accepted_ = true;
  Tick(now, actions);
}

void Member::Tick(absl::Time now, Actions* actions) {
  if (role_ != Role::kPromoting || !tail_accepted_ || is_proposing()) return;
  if (!ended_ && now < shut_at_ + absl::Microseconds(configuration_.lease_us)) return;
  role_ = Role::kPrimary;
  actions->push_back({.kind = Kind::kPublishTail});
  StoreWord(EpochWord::Open(configuration_.epoch), actions);
  actions->push_back({.kind = Kind::kServe});
}

bool Member::Accepts(uint64_t primary, uint64_t epoch) const {
  if (configuration_.epoch == 0 || epoch != configuration_.epoch || primary != configuration_.primary().incarnation) {
    return false;
  }
  return role_ == Role::kJoining || (role_ == Role::kBackup && word_ == EpochWord::Open(epoch));
}

std::vector<uint64_t> Member::MustAccept() const {
  std::vector<uint64_t> all;
  for (const Configuration* const configuration : {&configuration_, &proposal_}) {
    for (const Replica& member : configuration->members) {
      if (member.incarnation != incarnation_ && std::find(all.begin(), all.end(), member.incarnation) == all.end()) {
        all.push_back(member.incarnation);
      }
    }
  }
  return all;
}

void Member::StoreWord(EpochWord word, Actions* actions) {
  word_ = word;
  actions->push_back({.kind = Kind::kStoreWord, .word = word});
}

void Member::StepDown(Actions* actions) {
  role_ = Role::kDeposed;
  proposal_ = {};
  actions->push_back({.kind = Kind::kStepDown});
}

}  // namespace farlook::cluster
