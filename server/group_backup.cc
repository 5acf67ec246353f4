// What a server does for its group that is not, or not yet, the primary: it joins, follows the primary as its backup,
// and takes its place with those of the others that are there. Called on the group's thread.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {
namespace {

using cluster::Actions;
using cluster::Member;
using cluster::Replica;

// Of a connection's beginning.
constexpr int64_t kDialMs = 1000;

// Looks at what the primary sends, before all else has its turn again.
constexpr size_t kPollsOfATurn = 8;

}  // namespace

void Group::Promote(bool ended) {
  follower_.reset();
  const Replica was = member_.configuration().primary();
  std::vector<uint64_t> lost;
  for (const Replica& member : member_.configuration().members) {
    if (member.incarnation != options_.incarnation && HasEnded(member.incarnation)) lost.push_back(member.incarnation);
  }
  filled_by_ = was.incarnation;
  Log(LogLevel::kWarning,
      ended ? "the primary's process has ended; this server takes its place"
            : "nothing is heard of the primary; this server takes its place",
      {{"epoch", member_.epoch()}, {"accepted", backup_ == nullptr ? 0 : backup_->accepted()}});
  Actions actions;
  if (absl::Status status = member_.Promote(lost, ended && LockTells(was.address), &actions); !status.ok()) {
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
  if (backup_ != nullptr && Now() - refused_since_ > kMostRefused) Depose(status.message());
}

// For certain, of a member's process.
bool Group::HasEnded(uint64_t member) {
  if (!options_.has_ended) return false;
  const absl::StatusOr<bool> ended = options_.has_ended(member);
  if (!ended.ok() && !std::exchange(lock_error_is_told_, true)) {
    Log(LogLevel::kError, "whether a member has ended is not known", {{"reason", ended.status().message()}});
  }
  return ended.ok() && *ended;
}

bool Group::Follow() {
  if (member_.epoch() == 0 || member_.role() == Member::Role::kPromoting || member_.is_proposing()) return false;
  const Replica& primary = member_.configuration().primary();
  if (follower_ != nullptr && follower_->over()) Unfollow();
  if (deposed_) return false;
  const bool is_silent = IsSilent();
  if (member_.role() == Member::Role::kBackup) {
    const bool ended = member_.configuration().primary_left || (follower_ == nullptr && HasEnded(primary.incarnation));
    if (ended || is_silent) {
      if (Now() < propose_at_) return false;
      propose_at_ = Now() + kProposeAgain;
      Promote(ended);
      return true;
    }
  }
  if (member_.role() == Member::Role::kJoining && LookForLoss()) return true;
  if (follower_ == nullptr) {
    if (Now() < dial_at_) return false;
    Dial(primary);
  }
  if (follower_ == nullptr || !member_.Accepts(primary.incarnation, member_.epoch())) return false;
  if (follower_->follows()) refused_since_ = absl::InfiniteFuture();
  // A primary that fills this server sends much at once, and all else that a turn looks at is seldom due.
  size_t polls = 0;
  while (polls < kPollsOfATurn && follower_->Poll() > 0) ++polls;
  return polls > 0;
}

// Whether nothing was heard of the primary for too long. Called once in each turn, which takes in what came before.
bool Group::IsSilent() {
  const absl::Time now = Now();
  silent_ += std::clamp(now - listened_at_, absl::ZeroDuration(), kMostOfATurn);
  listened_at_ = now;
  if (member_.role() != Member::Role::kBackup || (follower_ != nullptr && follower_->TakeHeard())) {
    silent_ = absl::ZeroDuration();
  }
  if (follower_ != nullptr && now >= ping_at_) {
    ping_at_ = now + options_.suspicion / 4;
    follower_->Ping();
  }
  return silent_ >= options_.suspicion;
}

void Group::Dial(const Replica& primary) {
  dial_at_ = Now() + kDialAgain;
  auto endpoint = parts_.create_endpoint(primary.address);
  if (!endpoint.ok()) return;
  endpoint_ = *std::move(endpoint);
  const Follower::Identity me = {options_.incarnation, primary.incarnation, member_.epoch(), options_.user, Secret(),
                                 parts_.address};
  if (backup_ != nullptr) {
    follower_ = std::make_unique<Follower>(endpoint_.get(), backup_.get(), me);
  } else {
    const uint64_t by = primary.incarnation;
    const auto make = [this, by](const kv::Follow& answer) {
      filled_by_ = by;
      backup_ = std::make_unique<Backup>(parts_.table, parts_.locks, parts_.clock, parts_.time, member_.epoch(), by,
                                         answer.accepted);
      return backup_.get();
    };
    follower_ = std::make_unique<Follower>(endpoint_.get(), make, me);
  }
  if (!follower_->Dial(primary.address, kDialMs).ok()) follower_.reset();
}

// ---- The promoter's log.

// Has the other members follow this promoter, cut off what it does not have, and accept what they lack of what it does
// not know to be committed.
void Group::ShareTail() {
  watched_.clear();
  std::deque<cluster::Record> tail;
  if (backup_ != nullptr) tail = backup_->stream().tail();
  stream_.Lead(member_.epoch(), options_.incarnation, backup_ == nullptr ? 1 : backup_->accepted() + 1, tail,
               member_.MustAccept());
  SetMembers();
}

// Whether each other member follows, and has this promoter's log, and nothing beyond it.
bool Group::AllAgree() const {
  const auto followers = stream_.followers();
  const std::vector<uint64_t> others = member_.MustAccept();
  return std::all_of(others.begin(), others.end(), [&](uint64_t member) {
    const auto found = followers.find(member);
    return found != followers.end() && found->second.connection != 0 && found->second.accepted == stream_.last();
  });
}

// Of a promoter. Whoever does not answer is removed.
bool Group::AwaitTail() {
  WatchBackups();
  if (deposed_ || !AllAgree()) return false;
  Actions actions;
  member_.TailAccepted(member_.epoch(), Now(), &actions);
  const bool serves = !actions.empty();
  CarryOut(&actions);
  return serves;
}

}  // namespace farlook::server
