// What a server does that comes to a group of which nobody is left: it says so, and lets no client in, since an empty
// table must not pass for the one that is lost. An operator has one server begin the group anew.
//
// Who has ended the kernel of this host knows (process_lock.h). Between hosts nobody does: there it is said that nobody
// answers, and whether they are gone for good is the operator's to know.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Actions;
using cluster::Replica;

// True: it has acted on it.
bool Group::LookForLoss() {
  const absl::Time now = Now();
  if (heard_at_ == absl::InfinitePast() || (follower_ != nullptr && follower_->TakeHeard())) heard_at_ = now;
  if (now < look_for_loss_at_) return false;
  look_for_loss_at_ = now + kLookForLoss;
  const auto& members = member_.configuration().members;
  const bool have_ended = std::all_of(members.begin(), members.end(),
                                      [this](const Replica& member) { return HasEnded(member.incarnation); });
  if (!have_ended && now - heard_at_ < kNobodyAnswers) return false;
  if (backup_ != nullptr && !have_ended) return false;  // who fills it may come back
  if (backup_ != nullptr) {
    Depose("all that were to fill this server are gone");
    return true;
  }
  const bool may_know = !options_.has_ended;  // the operator, and nobody else
  if (options_.begin_anew != member_.epoch() || (!have_ended && !may_know)) {
    TellLoss(have_ended);
    return false;
  }
  if (now < propose_at_) return false;
  propose_at_ = now + kProposeAgain;
  Log(LogLevel::kWarning, "this server begins the group anew, with an empty table", {{"epoch", member_.epoch() + 1}});
  Actions actions;
  if (absl::Status status = member_.BeginAnew(parts_.address, have_ended, &actions); !status.ok()) {
    Log(LogLevel::kError, "cannot begin the group anew", {{"reason", status.message()}});
  }
  CarryOut(&actions);
  return true;
}

// Once in each epoch to the log, and to all clients that come.
void Group::TellLoss(bool is_certain) {
  const uint64_t epoch = member_.epoch();
  // Short, as a reject on shm:// has little room.
  const std::string advice =
      absl::StrCat("restart one server with --begin_group_anew=", epoch, " to begin with an empty table");
  if (is_certain) {
    Serving::Told told = serving_.told();
    told.loss = absl::StrCat("the group is lost, as all its members are gone: ", advice);
    serving_.Tell(std::move(told));
  }
  if (std::exchange(loss_is_told_, epoch) == epoch) return;
  Log(LogLevel::kError,
      is_certain ? "all members of the group are gone, and what it held is lost"
                 : "no member of the group answers; if all are gone for good, what it held is lost",
      {{"group", options_.name}, {"epoch", epoch}, {"advice", advice}});
}

}  // namespace farlook::server
