// The room that is left at a member of a group. A backup reports it to its primary.
#ifndef FARLOOK_KV_WIRE_ROOM_H_
#define FARLOOK_KV_WIRE_ROOM_H_

#include <cstdint>

namespace farlook::kv {

// Room for items that need more memory than the items that they replace, if any: what remains beside the reserve, and
// beside memory that the index will need. It is certain, whatever the lengths are, up to `longest_bytes`.
struct Room {
  static constexpr uint64_t kAny = uint64_t{1} << 62;

  uint64_t bytes = kAny;          // of all pieces together, and kIndexBytes for each
  uint64_t longest_bytes = kAny;  // of all pieces together, if one of them is longer than kShortBytes

  static constexpr uint64_t kIndexBytes = 64, kShortBytes = 4 << 10;

  bool operator==(const Room&) const = default;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_ROOM_H_
