#include "server/session/held_writes.h"

#include <algorithm>
#include <utility>

namespace farlook::server {

bool HeldWrites::Has(uint64_t hash) const {
  return std::any_of(held_.begin(), held_.end(), [hash](const Held& held) { return held.hash == hash; });
}

bool HeldWrites::TakeReady(absl::FunctionRef<bool(uint64_t hash)> busy, Held* held) {
  // The first that is not busy is also the first of its hash: all writes of one hash are busy, or none is.
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& one) { return !busy(one.hash); });
  if (found == held_.end()) return false;
  bytes_ -= BytesOf(*found);
  *held = std::move(*found);
  held_.erase(found);
  return true;
}

std::vector<uint64_t> HeldWrites::Clear() {
  std::vector<uint64_t> numbers;
  for (const Held& held : held_) numbers.push_back(held.number);
  held_.clear();
  bytes_ = 0;
  return numbers;
}

}  // namespace farlook::server
