// The description of a group for operators, and its figures, as this server knows them.
//
// Thread safety: used by the group's thread.
#ifndef FARLOOK_SERVER_GROUP_GROUP_STATUS_H_
#define FARLOOK_SERVER_GROUP_GROUP_STATUS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/group/backup_keeper.h"
#include "server/group/group_figures.h"
#include "server/group/join_rules.h"
#include "server/group/membership.h"
#include "server/group/operator_desk.h"
#include "server/group/slot_giver.h"
#include "server/group/slot_taker.h"
#include "server/group/standby.h"

namespace farlook::server {

class GroupStatus {
 public:
  // The parts to describe, and the desk that shows the text. All outlive this.
  GroupStatus(Membership* membership, const Standby* standby, BackupKeeper* keeper, const JoinRules* rules,
              const SlotGiver* giver, const SlotTaker* taker, OperatorDesk* desk)
      : membership_(membership),
        standby_(standby),
        keeper_(keeper),
        rules_(rules),
        giver_(giver),
        taker_(taker),
        desk_(desk) {}
  GroupStatus(const GroupStatus&) = delete;
  GroupStatus& operator=(const GroupStatus&) = delete;

  // Has the desk show the present state.
  void Update();
  // The time of the last update, and the group's epoch at that time.
  absl::Time updated_at() const { return updated_at_; }
  uint64_t epoch() const { return epoch_; }

 private:
  using Followers = std::map<uint64_t, GroupStream::Follower>;

  std::string DescribeMembers() const;
  std::string DescribeHealth(const Followers& followers) const;
  void DescribeMoves(std::string* text) const;
  GroupFigures ComputeFigures() const;

  Membership* const membership_;
  const Standby* const standby_;
  BackupKeeper* const keeper_;
  const JoinRules* const rules_;
  const SlotGiver* const giver_;
  const SlotTaker* const taker_;
  OperatorDesk* const desk_;
  absl::Time updated_at_ = absl::InfinitePast();
  uint64_t epoch_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_GROUP_STATUS_H_
