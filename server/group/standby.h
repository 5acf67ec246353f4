// A server that is not the group's primary: it joins, follows the primary as its backup, and replaces it.
//
// A backup replaces the primary once it was silent for GroupOptions::suspicion and its lease has expired
// (docs/cluster-design.md). It waits for neither if the directory is a folder of this host and the primary's process
// has certainly ended (process_lock.h).
//
// A backup that was removed keeps its copy until the primary of the present record serves. That one has all that was
// acknowledged, and fills this server again. If all members are gone, an operator can have the group begin from the
// copy.
//
// A server that joins a group whose members are all lost reports that and admits no clients: an empty table must not
// pass for the lost one. An operator makes one server begin the group again. On one host the kernel shows which
// processes have ended. Between hosts only the operator can know whether silent members are lost for good.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_STANDBY_H_
#define FARLOOK_SERVER_GROUP_STANDBY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "cluster/member.h"
#include "rdma/transport.h"
#include "server/group/membership.h"
#include "server/group/process_probe.h"
#include "server/replication/backup.h"
#include "server/replication/follower.h"

namespace farlook::server {

class Standby {
 public:
  explicit Standby(Membership* membership) : membership_(membership) {}

  // Executes one turn of a joiner or backup. Returns whether there may be more to do at once.
  bool Step();
  // The turn of a server that was removed. `anew`: the epoch of the lost members, if an operator has it begin the group
  // from its copy; 0: none. Returns whether there may be more to do at once.
  bool HoldCopy(uint64_t anew);
  // An epoch of another primary began; `former`: the primary before.
  void OnFollow(uint64_t former);
  // Has the primary remove this backup from the record. Until it is removed it follows, and does not replace the
  // primary.
  void Leave() { leaves_ = true; }
  // Returns whether nothing is left to wait for before this process ends: it is no backup any more, or the primary has
  // ended.
  bool HasLeft();
  // Closes the connection to the primary.
  void Stop();

  // The copy of the table; null: no primary has begun to fill it.
  Backup* backup() const { return backup_.get(); }
  // The primary whose table and replies are in backup().
  uint64_t filled_by() const { return filled_by_; }
  // The last epoch in which this server, now removed, was a member; 0: it keeps no copy. It stays when the group begins
  // from the copy.
  uint64_t copy_epoch() const { return copy_epoch_; }
  // Returns whether the primary is there, as far as is known: nothing is due soon.
  bool IsSettled() const {
    if (follower_ == nullptr || silent_ >= membership_->options().suspicion / 2) return false;
    return follower_->follows() || membership_->member().role() == cluster::Member::Role::kJoining;
  }
  // The connection to the primary; null: there is none.
  rdma::Endpoint* endpoint() const { return follower_ == nullptr ? nullptr : endpoint_.get(); }

 private:
  static constexpr absl::Duration kDialAgain = absl::Milliseconds(10);
  // Longest turn whose time counts as silence of the primary. The rest of a longer turn was this server's own delay.
  static constexpr absl::Duration kMostOfATurn = absl::Milliseconds(50);
  // Time after which a primary that refuses this server is assumed not to keep the records that it lacks.
  static constexpr absl::Duration kMostRefused = absl::Seconds(3);
  // Pause after a refusal that names what must change, the time after which other trouble is logged, and the interval
  // of these lines. Trouble is over when there was none for kTroublePasses.
  static constexpr absl::Duration kRefusedAgain = absl::Seconds(1);
  static constexpr absl::Duration kTroubleIsLogged = absl::Seconds(2);
  static constexpr absl::Duration kTroubleAgain = absl::Seconds(5);
  static constexpr absl::Duration kTroublePasses = absl::Seconds(4);
  // Interval of checks whether any member is left, and the silence after which none seems to be.
  static constexpr absl::Duration kLookForLoss = absl::Milliseconds(100);
  static constexpr absl::Duration kAllAreSilent = absl::Seconds(5);

  void Dial(const cluster::Replica& primary);
  Follower::Identity IdentityFor(const cluster::Replica& primary) const;
  void ReportTrouble(const absl::Status& why);
  void Unfollow();
  bool IsPrimarySilent();
  bool HasEnded(uint64_t member);
  void Promote(bool ended);
  bool ActOnLoss();
  void BeginAnew(bool have_ended);
  void ReportLoss(bool is_certain);
  std::string HowToBegin() const;
  void NoteRemoval();
  bool PrimaryServes();

  Membership* const membership_;
  std::unique_ptr<Backup> backup_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<Follower> follower_;
  uint64_t filled_by_ = 0;
  uint64_t copy_epoch_ = 0, member_epoch_ = 0;  // member_epoch_: the last one in which it was a backup
  std::unique_ptr<ProcessProbe> probe_;         // of a server that was removed
  bool leaves_ = false;
  absl::Time dial_at_ = absl::InfinitePast();
  absl::Time refused_since_ = absl::InfiniteFuture();
  bool lock_error_is_logged_ = false;
  absl::Duration silent_ = absl::ZeroDuration();   // since the primary's last message
  absl::Time listened_at_ = absl::InfinitePast();  // the last turn
  absl::Time ping_at_ = absl::InfinitePast();      // the next one
  absl::Time received_at_ = absl::InfinitePast();  // last message that a joiner received from a primary
  absl::Time look_for_loss_at_ = absl::InfinitePast();
  absl::Time trouble_since_ = absl::InfinitePast(),
             trouble_at_ = absl::InfinitePast();  // the first and last of a joiner
  absl::Time log_trouble_at_ = absl::InfinitePast();
  uint64_t loss_logged_ = 0;  // the epoch whose loss was logged
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_STANDBY_H_
