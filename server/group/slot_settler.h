// Completes a group's moves of slots: ends those whose other side has finished, and erases the items of slots that the
// group does not own.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_SLOT_SETTLER_H_
#define FARLOOK_SERVER_GROUP_SLOT_SETTLER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "kv/wire/cluster_map.h"
#include "server/group/membership.h"
#include "server/group/slot_giver.h"
#include "server/group/slot_taker.h"
#include "server/replication/slot_cleaner.h"

namespace farlook::server {

class SlotSettler {
 public:
  SlotSettler(Membership* membership, const SlotGiver* giver, const SlotTaker* taker)
      : membership_(membership), giver_(giver), taker_(taker) {}

  // Each function returns whether it did something.
  bool Settle();
  bool EraseForeign();

 private:
  bool SettleGiven(const cluster::Move& move);
  bool SettleTaken(const cluster::Move& move);
  kv::SlotSet Foreign() const;

  Membership* const membership_;
  const SlotGiver* const giver_;
  const SlotTaker* const taker_;
  absl::Time settle_at_ = absl::InfinitePast();  // next read of the other groups' records
  std::unique_ptr<SlotCleaner> cleaner_;
  kv::SlotSet foreign_;  // slots whose items this group must erase in this epoch
  uint64_t foreign_epoch_ = 0;
  bool erases_ = false;  // there may be items of foreign_
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_SLOT_SETTLER_H_
