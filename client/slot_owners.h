// Which of a client's cores has which slot of a cluster (docs/cluster.md).
//
// A core has the slots that its last Welcome names; where two Welcomes name one slot, the later one counts. The map of
// the cluster is only a hint, for cores that have not connected yet. A slot that no core has is nobody's: that is a
// core as well (ClientCore::MakeNobody), where operations wait.
//
// Invariants:
//   * Route() leads to a core that is connected only for slots that its last Welcome names.
//   * Route() leads to nobody from when an operation of the slot is refused, or the slot changes hands, until none of
//     its requests is under way any more: so what is started later stays behind what was started before.
#ifndef FARLOOK_CLIENT_SLOT_OWNERS_H_
#define FARLOOK_CLIENT_SLOT_OWNERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/cluster_map.h"

namespace farlook::client {

// Thread safety: one thread. Times are of one clock.
class SlotOwners {
 public:
  // Of so many cores, by their indexes; the index behind them is nobody's, whose all slots are.
  explicit SlotOwners(size_t cores);
  // One more core, at nobody's index, which is the next from now on.
  void Grow();

  // The index of the core for what is started now.
  size_t Route(size_t slot) const { return routes_[slot]; }
  // That of the core that has it, as far as is known.
  size_t Owner(size_t slot) const { return owners_[slot]; }
  bool HasAny(size_t core) const;
  // Whether what is started now may go to the owner.
  bool Settled(size_t slot) const { return routes_[slot] == owners_[slot]; }

  // The map says that they are this core's, which has not connected yet.
  void Hint(size_t core, const kv::SlotSet& slots);
  // Its server has said Welcome, and that these are its slots. REQUIRES that it READs nothing until this returns.
  void Told(size_t core, const kv::SlotWords& slots);
  // The core's server has answered a request of the slot with `moved`.
  void Refused(size_t core, size_t slot, int64_t now_ns);

  // Whether Settle() may have something to do, now or when it is tried again.
  bool unsettled() const { return unsettled_; }
  // When what a slot's owner itself has refused is tried again with it; may be over.
  int64_t next_try_ns() const { return next_try_ns_; }
  // Those whose operations may begin anew where Route() says; of those in `busy` requests are under way.
  kv::SlotSet Settle(const kv::SlotSet& busy, int64_t now_ns);

 private:
  // Between two tries; the pause doubles while one follows the other within kForgetNs.
  static constexpr int64_t kLeastPauseNs = 1'000'000, kMostPauseNs = 20'000'000, kForgetNs = 100'000'000;

  struct Core {
    kv::SlotWords slots = {};  // of its last Welcome
    uint64_t heard = 0;        // which of all Welcomes that was
  };
  using OfSlots = std::array<uint8_t, kv::kClusterSlots>;

  void SetOwner(size_t slot, uint8_t owner);
  uint8_t LastHeard(size_t slot) const;

  OfSlots routes_;      // the owner's, or nobody's
  OfSlots owners_;      // indexes of cores
  OfSlots refused_by_;  // nobody: by none since it was settled
  uint8_t nobody_;
  bool unsettled_ = false;
  int64_t pause_ns_ = 0, next_try_ns_ = 0;
  uint64_t heard_ = 0;  // Welcomes
  std::vector<Core> cores_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_SLOT_OWNERS_H_
