#include "client/core/slot_owners.h"

#include <algorithm>

namespace farlook::client {

static_assert(kv::kMaxGroups < SlotOwners::kNone, "a slot's owner is a byte");

SlotOwners::SlotOwners(size_t cores) : cores_(cores) {
  routes_.fill(static_cast<uint8_t>(cores));
  owners_.fill(kNone);
}

void SlotOwners::Grow() {
  const auto waits = static_cast<uint8_t>(cores_.size());
  cores_.emplace_back();
  std::replace(routes_.begin(), routes_.end(), waits, static_cast<uint8_t>(cores_.size()));
}

bool SlotOwners::HasAny(size_t core) const {
  return std::find(owners_.begin(), owners_.end(), static_cast<uint8_t>(core)) != owners_.end();
}

void SlotOwners::Hint(size_t core, const kv::SlotSet& slots) {
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (slots[slot]) routes_[slot] = owners_[slot] = static_cast<uint8_t>(core);
  }
}

void SlotOwners::OnWelcome(size_t core, const kv::SlotWords& slots) {
  cores_[core] = {slots, ++welcomes_};
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (kv::HasSlot(slots, slot)) {
      SetOwner(slot, core);
    } else if (owners_[slot] == core) {
      SetOwner(slot, LatestOwner(slot));
    }
  }
}

void SlotOwners::SetOwner(size_t slot, size_t owner) {
  if (owners_[slot] == owner) return;
  owners_[slot] = static_cast<uint8_t>(owner);
  Close(slot);
}

void SlotOwners::Close(size_t slot) {
  closed_.set(slot);
  routes_[slot] = static_cast<uint8_t>(cores_.size());
  unsettled_ = true;
}

// Returns the core whose latest Welcome names the slot. It was wrongly believed to have lost the slot, because another
// core's Welcome came from a deposed server.
size_t SlotOwners::LatestOwner(size_t slot) const {
  size_t last = kNone;
  uint64_t welcome = 0;
  for (size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i].welcome <= welcome || !kv::HasSlot(cores_[i].slots, slot)) continue;
    welcome = cores_[i].welcome;
    last = i;
  }
  return last;
}

kv::SlotSet SlotOwners::Open(const kv::SlotSet& stay_closed) {
  kv::SlotSet opened = closed_;
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (owners_[slot] == kNone) opened.reset(slot);
  }
  unsettled_ = (opened & stay_closed).any();
  opened &= ~stay_closed;
  closed_ &= ~opened;
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (opened[slot]) routes_[slot] = owners_[slot];
  }
  return opened;
}

}  // namespace farlook::client
