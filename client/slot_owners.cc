#include "client/slot_owners.h"

#include <algorithm>

namespace farlook::client {

static_assert(kv::kMaxGroups < UINT8_MAX, "a slot's owner is a byte, and nobody has one more");

SlotOwners::SlotOwners(size_t cores) : nobody_(static_cast<uint8_t>(cores)), cores_(cores) {
  for (OfSlots* all : {&routes_, &owners_, &refused_by_}) all->fill(nobody_);
}

void SlotOwners::Grow() {
  const uint8_t before = nobody_++;
  for (OfSlots* all : {&routes_, &owners_, &refused_by_}) std::replace(all->begin(), all->end(), before, nobody_);
  cores_.emplace_back();
}

bool SlotOwners::HasAny(size_t core) const {
  return std::find(owners_.begin(), owners_.end(), static_cast<uint8_t>(core)) != owners_.end();
}

void SlotOwners::Hint(size_t core, const kv::SlotSet& slots) {
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (slots[slot]) routes_[slot] = owners_[slot] = static_cast<uint8_t>(core);
  }
}

void SlotOwners::Told(size_t core, const kv::SlotWords& slots) {
  const auto index = static_cast<uint8_t>(core);
  cores_[core] = {slots, ++heard_};
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (kv::HasSlot(slots, slot)) {
      SetOwner(slot, index);
    } else if (owners_[slot] == index) {
      SetOwner(slot, LastHeard(slot));
    }
  }
}

void SlotOwners::SetOwner(size_t slot, uint8_t owner) {
  if (owners_[slot] == owner) return;
  owners_[slot] = owner;
  routes_[slot] = nobody_;
  unsettled_ = true;
}

// Who had been believed wrongly to have lost it, as another one's Welcome was of a server that was deposed already.
uint8_t SlotOwners::LastHeard(size_t slot) const {
  uint8_t last = nobody_;
  uint64_t heard = 0;
  for (size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i].heard <= heard || !kv::HasSlot(cores_[i].slots, slot)) continue;
    heard = cores_[i].heard;
    last = static_cast<uint8_t>(i);
  }
  return last;
}

void SlotOwners::Refused(size_t core, size_t slot, int64_t now_ns) {
  routes_[slot] = nobody_;
  refused_by_[slot] = static_cast<uint8_t>(core);
  unsettled_ = true;
  if (owners_[slot] != core || now_ns < next_try_ns_) return;
  pause_ns_ =
      now_ns - next_try_ns_ > kForgetNs ? kLeastPauseNs : std::clamp(2 * pause_ns_, kLeastPauseNs, kMostPauseNs);
  next_try_ns_ = now_ns + pause_ns_;
}

kv::SlotSet SlotOwners::Settle(const kv::SlotSet& busy, int64_t now_ns) {
  kv::SlotSet settled;
  unsettled_ = false;
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (Settled(slot)) continue;
    if (busy[slot] || (refused_by_[slot] == owners_[slot] && now_ns < next_try_ns_)) {
      unsettled_ = true;
      continue;
    }
    routes_[slot] = owners_[slot];
    refused_by_[slot] = nobody_;
    settled.set(slot);
  }
  return settled;
}

}  // namespace farlook::client
