// A group that takes slots from another one. Its record contains the move. Its current primary follows the giver's
// primary, and turns the records of the slots' items into writes of its own. The group enters the slots into its record
// when the giver's record shows that they are given, and no client READs them there any more.
//
// docs/cluster-design.md, "Slots that move", has the reason for each step.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_SLOT_TAKER_H_
#define FARLOOK_SERVER_GROUP_SLOT_TAKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "rdma/transport.h"
#include "server/group/membership.h"
#include "server/group/operator_desk.h"
#include "server/replication/follower.h"
#include "server/replication/slot_cleaner.h"
#include "server/replication/slot_importer.h"

namespace farlook::server {

class SlotTaker {
 public:
  SlotTaker(Membership* membership, OperatorDesk* desk) : membership_(membership), desk_(desk) {}

  // Returns whether it did something; otherwise it waits.
  bool Step();
  bool is_taking() const { return taking_ != nullptr; }
  // Closes the connection to the giver.
  void Stop() { taking_.reset(); }
  // Appends the progress of this move, which is in the record, for operators.
  void Describe(const cluster::Move& move, std::string* text) const;

 private:
  struct Taking {
    cluster::Move move;
    cluster::Configuration giver = {};  // as last read; epoch 0: not yet
    absl::Time look_at = absl::InfinitePast(), dial_at = absl::InfinitePast();
    absl::Time given_at = absl::InfiniteFuture();  // when the giver's record was seen to have given the slots
    std::unique_ptr<rdma::Endpoint> endpoint;
    std::unique_ptr<SlotImporter> importer;  // before `follower`, which refers to it
    std::unique_ptr<Follower> follower;
    uint64_t followed = 0;                 // the giver's primary that `follower` follows
    std::unique_ptr<SlotCleaner> cleaner;  // erases the copies of a former attempt
    bool is_clean = false;
    uint64_t estimate = 0;  // number of items to copy
    std::string waits;      // what it waits for; empty: nothing
    std::string give_up;    // why it gives up; empty: it does not
  };

  bool BeginRequested();
  void LookAtGiver();
  void DialGiver();
  bool Clean();
  bool Import();
  bool Own();
  bool GiveUp();
  void EndTaking();
  void StartOver(absl::string_view why);

  Membership* const membership_;
  OperatorDesk* const desk_;
  std::unique_ptr<Taking> taking_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_SLOT_TAKER_H_
