// A group that gives slots to another one, whose primary follows the stream as a joiner does, with copies of the slots'
// items in it.
//
//     copy -> close: requests of the slots are refused, those under way end -> the taker has accepted all
//          -> this group's record names the taker as the only group that may have the slots
//
// docs/cluster-design.md, "Slots that move", has the reason for each step.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_SLOT_GIVER_H_
#define FARLOOK_SERVER_GROUP_SLOT_GIVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "server/group/copy_pace.h"
#include "server/group/membership.h"
#include "server/replication/group_stream.h"
#include "server/replication/snapshot_sender.h"

namespace farlook::server {

class SlotGiver {
 public:
  SlotGiver(Membership* membership, CopyPace* pace) : membership_(membership), pace_(pace) {}

  // Returns whether it did something; otherwise it waits.
  bool Step();
  // Returns whether this move is being given, and its end has not been seen yet.
  bool IsGiving(uint64_t move) const { return giving_ != nullptr && giving_->move.id == move; }
  // Appends a line for operators, if slots are being given.
  void Describe(std::string* text) const;

 private:
  struct Giving {
    uint64_t taker = 0;  // the incarnation of the other group's primary
    cluster::Move move;
    uint64_t from = 0;  // the taker receives all records after this one
    std::unique_ptr<SnapshotSender> sender;
    absl::Time copied_at = absl::InfiniteFuture();  // when all items that existed at the beginning were copied
    absl::Time close_at = absl::InfinitePast();     // earliest time to close the slots
    absl::Time closed_at = absl::InfiniteFuture();  // since then requests for the slots are refused
    uint64_t last = 0;  // the taker may have the slots when it has accepted this record; 0: not known
  };

  bool BeginGiving(uint64_t taker, const GroupStream::Follower& state);
  absl::Status Check(const cluster::Configuration& group, const cluster::Move* move, uint64_t taker) const;
  bool Give();
  bool GiveClosed(uint64_t accepted);
  void CloseSlots();
  void ReopenSlots();
  void Forget();

  Membership* const membership_;
  CopyPace* const pace_;
  std::unique_ptr<Giving> giving_;
  absl::Time begin_at_ = absl::InfinitePast();  // earliest time to begin another attempt
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_SLOT_GIVER_H_
