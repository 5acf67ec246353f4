#include "server/group/standby.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/log.h"
#include "server/group/join_rules.h"

namespace farlook::server {
namespace {

using cluster::Actions;
using cluster::Member;
using cluster::Replica;

// Limit of connecting.
constexpr int64_t kDialMs = 1000;

// Messages of the primary that are handled in a row before the rest of a turn.
constexpr size_t kPollsOfATurn = 8;

}  // namespace

bool Standby::Step() {
  const Member& member = membership_->member();
  if (member.epoch() == 0 || member.role() == Member::Role::kPromoting || member.is_proposing()) return false;
  if (follower_ != nullptr && follower_->over()) {
    Unfollow();  // may learn a later record, with another primary and role
    return true;
  }
  if (membership_->is_deposed() || member.role() == Member::Role::kRemoved) return false;
  const Replica& primary = member.configuration().primary();
  const bool is_silent = IsPrimarySilent();
  if (member.role() == Member::Role::kBackup) member_epoch_ = member.epoch();
  if (member.role() == Member::Role::kBackup && !leaves_) {
    const bool ended = member.configuration().primary_left || (follower_ == nullptr && HasEnded(primary.incarnation));
    if (ended || is_silent) {
      if (!membership_->BeginProposal()) return false;
      Promote(ended);
      return true;
    }
  }
  if (member.role() == Member::Role::kJoining && ActOnLoss()) return true;
  if (follower_ == nullptr) {
    if (membership_->Now() < dial_at_) return false;
    Dial(primary);
  }
  if (follower_ == nullptr || !member.Accepts(primary.incarnation, member.epoch())) return false;
  if (follower_->follows()) refused_since_ = absl::InfiniteFuture();
  if (leaves_) follower_->Leave();
  // A primary that fills this server sends much at once, and the rest of a turn is seldom due.
  size_t polls = 0;
  while (polls < kPollsOfATurn && follower_->Poll() > 0) ++polls;
  return polls > 0;
}

void Standby::OnFollow(uint64_t former) {
  const uint64_t primary = membership_->configuration().primary().incarnation;
  silent_ = absl::ZeroDuration();
  if (membership_->member().role() == Member::Role::kRemoved) return NoteRemoval();
  // A joiner that waits to be filled by the same primary keeps its connection.
  if (backup_ != nullptr || primary != former) follower_.reset();
  if (backup_ == nullptr) return;
  if (membership_->member().role() == Member::Role::kJoining && primary != filled_by_) {
    return membership_->Depose("the primary that filled this server is gone; another one fills it again");
  }
  backup_->EnterEpoch(membership_->member().epoch(), primary);
}

bool Standby::HasLeft() {
  if (membership_->is_deposed() || membership_->member().role() != Member::Role::kBackup) return true;
  const cluster::Configuration& configuration = membership_->configuration();
  return configuration.primary_left || HasEnded(configuration.primary().incarnation);
}

void Standby::Stop() {
  follower_.reset();
  endpoint_.reset();
}

// ---- The connection to the primary.

void Standby::Dial(const Replica& primary) {
  dial_at_ = membership_->Now() + kDialAgain;
  ping_at_ = absl::InfinitePast();
  const GroupParts& parts = membership_->parts();
  auto endpoint = parts.create_endpoint(primary.address);
  if (!endpoint.ok()) return ReportTrouble(endpoint.status());
  endpoint_ = *std::move(endpoint);
  const Follower::Identity me = IdentityFor(primary);
  if (backup_ != nullptr) {
    follower_ = std::make_unique<Follower>(endpoint_.get(), backup_.get(), me);
  } else {
    const uint64_t by = primary.incarnation;
    const auto make = [this, by](const kv::Follow& answer) {
      const GroupParts& with = membership_->parts();
      filled_by_ = by;
      backup_ = std::make_unique<Backup>(with.table, with.locks, with.clock, with.time, membership_->member().epoch(),
                                         by, answer.accepted);
      return backup_.get();
    };
    follower_ = std::make_unique<Follower>(endpoint_.get(), make, me);
  }
  if (absl::Status status = follower_->Dial(primary.address, kDialMs); !status.ok()) {
    follower_.reset();
    ReportTrouble(status);
  }
}

Follower::Identity Standby::IdentityFor(const Replica& primary) const {
  const GroupOptions& options = membership_->options();
  const std::string& address = membership_->parts().address;
  Follower::Identity me = {.replica = options.incarnation,
                           .primary = primary.incarnation,
                           .epoch = membership_->member().epoch(),
                           .user = options.user,
                           .secret = options.secret ? options.secret() : "",
                           .address = address,
                           .max_value_bytes = options.limits.max_value_bytes,
                           .memory_bytes = options.limits.memory_bytes};
  if (options.users_digest) {
    me.users = options.users_digest(membership_->configuration().group, options.incarnation,
                                    absl::StartsWith(address, "shm:"));
  }
  return me;
}

// Acts on the end of the connection to the primary.
void Standby::Unfollow() {
  const absl::Time now = membership_->Now();
  const absl::Status status = follower_->status();
  const RecordSource::Known known = follower_->refused_with();
  const uint64_t epoch = membership_->member().epoch();
  follower_.reset();
  dial_at_ = now + kDialAgain;
  // RESOURCE_EXHAUSTED ends a backup that has failed. From this host, or from a primary without room, it may pass.
  if ((backup_ != nullptr && backup_->has_failed()) || absl::IsDataLoss(status)) {
    return membership_->Depose(status.message());
  }
  // The primary has a later epoch. Its record is as good as the directory's, which may be slow.
  if (known.revision != 0) {
    membership_->Learn({.revision = known.revision, .value = known.record});
    if (membership_->is_deposed()) return;
    if (membership_->member().epoch() != epoch) {
      dial_at_ = now;
      return;
    }
  }
  // The primary has given this backup up.
  if (backup_ != nullptr && absl::IsPermissionDenied(status)) return membership_->Depose(status.message());
  // FAILED_PRECONDITION: probably the primary no longer keeps what this backup lacks. Another epoch is learned soon.
  refused_since_ = absl::IsFailedPrecondition(status) ? std::min(refused_since_, now) : absl::InfiniteFuture();
  if (backup_ != nullptr && now - refused_since_ > kMostRefused) return membership_->Depose(status.message());
  ReportTrouble(status);
}

// Logs from time to time why a joiner does not follow the primary.
void Standby::ReportTrouble(const absl::Status& why) {
  if (membership_->member().role() != Member::Role::kJoining || backup_ != nullptr || why.ok()) return;
  const absl::Time now = membership_->Now();
  const bool is_refused = absl::IsPermissionDenied(why) || absl::IsUnauthenticated(why);
  if (is_refused) dial_at_ = now + kRefusedAgain;
  if (now - trouble_at_ > kTroublePasses) trouble_since_ = now;
  trouble_at_ = now;
  if (now < log_trouble_at_ || (!is_refused && now - trouble_since_ < kTroubleIsLogged)) return;
  log_trouble_at_ = now + kTroubleAgain;
  const std::string& primary = membership_->configuration().primary().address;
  std::string reason(why.message());
  const std::string unreachable = WhyUnreachable(membership_->parts().address, primary);
  if (!is_refused && !unreachable.empty()) absl::StrAppend(&reason, "; ", unreachable);
  Log(LogLevel::kError, is_refused ? "this server may not join its group" : "this server cannot join its group yet",
      {{"group", membership_->options().name},
       {"epoch", membership_->member().epoch()},
       {"primary", primary},
       {"reason", reason}});
}

// Updates silent_. Called once in each turn, after the messages of the previous turn were handled.
bool Standby::IsPrimarySilent() {
  const absl::Time now = membership_->Now();
  silent_ += std::clamp(now - listened_at_, absl::ZeroDuration(), kMostOfATurn);
  listened_at_ = now;
  if (membership_->member().role() != Member::Role::kBackup || (follower_ != nullptr && follower_->TakeReceived())) {
    silent_ = absl::ZeroDuration();
  }
  const absl::Duration suspicion = membership_->options().suspicion;
  if (follower_ != nullptr && now >= ping_at_) {
    ping_at_ = now + suspicion / 4;
    follower_->Ping(suspicion / 4);
  }
  return silent_ >= suspicion;
}

// ---- A primary that is gone.

// Returns whether the member's process has certainly ended.
bool Standby::HasEnded(uint64_t member) {
  const auto& has_ended = membership_->options().has_ended;
  if (!has_ended) return false;
  const absl::StatusOr<bool> ended = has_ended(member);
  if (!ended.ok() && !std::exchange(lock_error_is_logged_, true)) {
    Log(LogLevel::kError, "cannot find out whether a member has ended", {{"reason", ended.status().message()}});
  }
  return ended.ok() && *ended;
}

void Standby::Promote(bool ended) {
  follower_.reset();
  const Replica was = membership_->configuration().primary();
  std::vector<uint64_t> lost;
  for (const Replica& member : membership_->configuration().members) {
    const bool is_other = member.incarnation != membership_->options().incarnation;
    if (is_other && HasEnded(member.incarnation)) lost.push_back(member.incarnation);
  }
  filled_by_ = was.incarnation;
  Log(LogLevel::kWarning,
      ended ? "the primary's process has ended; this server takes its place"
            : "the primary is silent; this server takes its place",
      {{"epoch", membership_->member().epoch()}, {"accepted", backup_ == nullptr ? 0 : backup_->accepted()}});
  Actions actions;
  const bool is_unreadable = ended && membership_->LockProvesEnd(was.address);
  if (absl::Status status = membership_->mutable_member()->Promote(lost, is_unreadable, &actions); !status.ok()) {
    Log(LogLevel::kError, "cannot take the primary's place", {{"reason", status.message()}});
  }
  membership_->CarryOut(&actions);
}

// ---- A group that is lost.

// Returns whether it has acted, so that the turn ends.
bool Standby::ActOnLoss() {
  const absl::Time now = membership_->Now();
  if (received_at_ == absl::InfinitePast() || (follower_ != nullptr && follower_->TakeReceived())) received_at_ = now;
  if (now < look_for_loss_at_) return false;
  look_for_loss_at_ = now + kLookForLoss;
  const auto& members = membership_->configuration().members;
  const bool have_ended = std::all_of(members.begin(), members.end(),
                                      [this](const Replica& member) { return HasEnded(member.incarnation); });
  if (!have_ended && now - received_at_ < kAllAreSilent) return false;
  if (backup_ != nullptr && !have_ended) return false;  // the primary that fills it may come back
  if (backup_ != nullptr) {
    membership_->Depose("all servers that could fill this server are gone");
    return true;
  }
  const GroupOptions& options = membership_->options();
  const bool is_known = have_ended || !options.has_ended;  // otherwise only the operator can decide
  if (options.begin_anew != membership_->member().epoch() || !is_known) {
    ReportLoss(have_ended);
    return false;
  }
  if (!membership_->BeginProposal()) return false;
  BeginAnew(have_ended);
  return true;
}

void Standby::BeginAnew(bool have_ended) {
  Log(LogLevel::kWarning,
      copy_epoch_ == 0 ? "this server restarts the group with an empty table"
                       : "this server restarts the group from its copy; what was acknowledged later is lost",
      {{"epoch", membership_->member().epoch() + 1}, {"copy_of_epoch", copy_epoch_}});
  Actions actions;
  const std::string& address = membership_->parts().address;
  const cluster::Limits& limits = membership_->options().limits;
  cluster::Member* const member = membership_->mutable_member();
  if (absl::Status status = member->BeginAnew(address, limits, have_ended, &actions); !status.ok()) {
    Log(LogLevel::kError, "cannot restart the group", {{"reason", status.message()}});
  }
  membership_->CarryOut(&actions);
}

// Logs the loss once in each epoch. If it is certain, also reports it to all clients that connect. If a member's
// address cannot be reached from here, that member may be alive, with all data: then the advice is another.
void Standby::ReportLoss(bool is_certain) {
  const uint64_t epoch = membership_->member().epoch();
  const std::string anew = HowToBegin();
  if (is_certain) {
    Serving::Announcement announced = membership_->serving()->announced();
    announced.loss = absl::StrCat("the group is lost: all its members are gone: ", anew);
    membership_->serving()->Announce(std::move(announced));
  }
  if (std::exchange(loss_logged_, epoch) == epoch) return;
  std::string advice = anew;
  if (!is_certain) {
    const Replica& primary = membership_->configuration().primary();
    advice = WhyUnreachable(membership_->parts().address, primary.address);
    if (advice.empty()) {
      advice = absl::StrCat("start its servers, and look whether ", primary.address,
                            " is reached from this host; only if all members are gone for good, ", anew);
    }
  }
  Log(LogLevel::kError,
      is_certain ? "all members of the group are gone, and its data is lost"
                 : "no member of the group answers; if all are gone for good, its data is lost",
      {{"group", membership_->options().name}, {"epoch", epoch}, {"advice", advice}});
}

}  // namespace farlook::server
