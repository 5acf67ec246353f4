// A backup that was removed from its group, and its copy.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/log.h"
#include "server/group/standby.h"

namespace farlook::server {

using cluster::Member;
using cluster::Replica;

// Called when a record without this server is learned; also for later ones.
void Standby::NoteRemoval() {
  follower_.reset();
  received_at_ = membership_->Now();
  if (copy_epoch_ != 0 || backup_ == nullptr) return;
  copy_epoch_ = member_epoch_;
  if (leaves_) return Log(LogLevel::kInfo, "this server has left the group", {{"group", membership_->options().name}});
  Log(LogLevel::kWarning, "this server was removed from the group; it keeps its copy until the primary serves",
      {{"group", membership_->options().name},
       {"epoch", membership_->member().epoch()},
       {"copy_of_epoch", copy_epoch_},
       {"accepted", backup_->accepted()},
       {"keys", membership_->parts().table->stats().keys}});
}

bool Standby::HoldCopy(uint64_t anew) {
  const Member& member = membership_->member();
  if (member.is_proposing()) return false;
  if (backup_ == nullptr || copy_epoch_ == 0 || PrimaryServes()) {
    membership_->Depose("it is no longer a member of the group");
    return true;
  }
  const absl::Time now = membership_->Now();
  if (now < look_for_loss_at_) return false;
  look_for_loss_at_ = now + kLookForLoss;
  const auto& members = membership_->configuration().members;
  const bool have_ended =
      std::all_of(members.begin(), members.end(), [this](const Replica& one) { return HasEnded(one.incarnation); });
  if (!have_ended && now - received_at_ < kAllAreSilent) return false;
  ReportLoss(have_ended);
  const bool is_known = have_ended || !membership_->options().has_ended;  // otherwise only the operator can decide
  if (anew != member.epoch() || !is_known || !membership_->BeginProposal()) return false;
  BeginAnew(have_ended);
  return true;
}

// The primary of the present record has all that was acknowledged, and fills this server.
bool Standby::PrimaryServes() {
  const Replica& primary = membership_->configuration().primary();
  if (probe_ == nullptr || probe_->incarnation() != primary.incarnation) {
    probe_ = std::make_unique<ProcessProbe>(ProcessProbe::Question::kServes, primary.address, primary.incarnation);
  }
  return probe_->Ask(membership_->parts().create_endpoint, membership_->Now());
}

// Short, since a reject on shm:// has little room.
std::string Standby::HowToBegin() const {
  const uint64_t epoch = membership_->member().epoch();
  return copy_epoch_ == 0
             ? absl::StrCat("restart one server with --begin_group_anew=", epoch, " to begin with an empty table")
             : absl::StrCat("this server has a copy of epoch ", copy_epoch_, ": set --begin_group_anew=", epoch,
                            " --from_copy in its flagfile and send it SIGHUP");
}

}  // namespace farlook::server
