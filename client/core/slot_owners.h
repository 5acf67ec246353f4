// The slots of a cluster that each core of a client has (docs/cluster-design.md).
//
// A core has the slots that its last Welcome names; if two Welcomes name one slot, the later one counts. The map of the
// cluster is only a hint, for cores that have not connected yet.
//
// A slot is closed from when an operation of it is refused, or its owner changes, until Open(). Operations of a slot
// that is closed, or has no owner, wait in MovedOperations (moved_operations.h).
//
// Invariant: Route() returns a connected core only for slots that its last Welcome names.
#ifndef FARLOOK_CLIENT_CORE_SLOT_OWNERS_H_
#define FARLOOK_CLIENT_CORE_SLOT_OWNERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/wire/cluster_map.h"

namespace farlook::client {

// Thread safety: one thread.
class SlotOwners {
 public:
  // The owner of a slot without a core.
  static constexpr size_t kNone = UINT8_MAX;

  // `cores`: number of cores, indexed from 0. Initially none of them has a slot.
  explicit SlotOwners(size_t cores);
  // Adds a core, with the next index.
  void Grow();

  // Returns the index of the core that operations started now go to; the number of cores: they wait.
  size_t Route(size_t slot) const { return routes_[slot]; }
  // Returns the index of the core that has the slot, as far as is known.
  size_t Owner(size_t slot) const { return owners_[slot]; }
  bool HasAny(size_t core) const;

  // Records the map's statement that `slots` belong to this core, which has not connected yet.
  void Hint(size_t core, const kv::SlotSet& slots);
  // Records the slots in the Welcome of the core's server. REQUIRES that the core READs nothing until this returns.
  void OnWelcome(size_t core, const kv::SlotWords& slots);

  bool closed(size_t slot) const { return closed_[slot]; }
  void Close(size_t slot);
  // Returns whether Open() may open a slot.
  bool unsettled() const { return unsettled_; }
  // Opens the closed slots that have an owner, except those of `stay_closed`. Returns the slots that it opened.
  kv::SlotSet Open(const kv::SlotSet& stay_closed);

 private:
  struct Core {
    kv::SlotWords slots = {};  // of its last Welcome
    uint64_t welcome = 0;      // sequence number of that Welcome
  };

  void SetOwner(size_t slot, size_t owner);
  size_t LatestOwner(size_t slot) const;

  using OfSlots = std::array<uint8_t, kv::kClusterSlots>;
  OfSlots routes_;
  OfSlots owners_;
  kv::SlotSet closed_;
  bool unsettled_ = false;  // a closed slot may have an owner
  uint64_t welcomes_ = 0;   // number of Welcomes
  std::vector<Core> cores_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CORE_SLOT_OWNERS_H_
