// The map of a cluster: 4,096 slots of keys, each of one group (docs/cluster-design.md).
//
// A key's slot is a function of its hash, whose seed all groups of a cluster share. The map is text, so that it is sent
// in pages like the figures of a stat:
//
//     cluster NAME ID SEED     ID and SEED: 16 hexadecimal digits
//     group NAME EPOCH         then its members, the primary first, and any number of ranges of its slots
//     member ADDRESS
//     slots FIRST LAST         both included
#ifndef FARLOOK_KV_WIRE_CLUSTER_MAP_H_
#define FARLOOK_KV_WIRE_CLUSTER_MAP_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::kv {

inline constexpr int kSlotBits = 12;
inline constexpr size_t kClusterSlots = size_t{1} << kSlotBits;
inline constexpr size_t kMaxGroups = 250;
// Limit of a map as text: each group has at most 16 members, with addresses of 256 bytes.
inline constexpr size_t kMaxMapBytes = size_t{2} << 20;
// Limit of the names of a cluster and of a group, which name records in a directory: letters, digits and _.-
inline constexpr size_t kMaxClusterNameBytes = 128;

// The table derives a key's position from the top of its hash. The product's top bits depend on all bits, so the keys
// of one slot are spread over the whole table. The constant is 2^64 over the golden ratio.
constexpr size_t ClusterSlotOf(uint64_t hash) { return (hash * 0x9e37'79b9'7f4a'7c15) >> (64 - kSlotBits); }

using SlotSet = std::bitset<kClusterSlots>;
// The same as words, slot 0 the lowest bit of the first: for the network, and for sharing among threads.
using SlotWords = std::array<uint64_t, kClusterSlots / 64>;
SlotWords WordsOf(const SlotSet& slots);
constexpr bool HasSlot(const SlotWords& words, size_t slot) { return (words[slot / 64] >> slot % 64 & 1) != 0; }

struct SlotRange {
  size_t first = 0, last = 0;
};
// Returns the fewest ranges, in order.
std::vector<SlotRange> RangesOf(const SlotSet& slots);
// "0-2047,3000"; empty: none.
std::string FormatSlots(const SlotSet& slots);
// INVALID_ARGUMENT names the problem.
absl::StatusOr<SlotSet> ParseSlots(absl::string_view text);

bool IsClusterName(absl::string_view name);

struct ClusterMap {
  struct Group {
    std::string name = {};
    uint64_t epoch = 0;
    std::vector<std::string> members = {};  // addresses, the primary first; none: it has not begun
    SlotSet slots = {};
  };
  std::string name = {};
  uint64_t id = 0;  // random: distinguishes two clusters with the same name
  uint64_t hash_seed = 0;
  std::vector<Group> groups = {};

  const Group* Find(absl::string_view group) const;  // null: there is none
  SlotSet Served() const;                            // those whose group has begun

  std::string Encode() const;
  // Decodes untrusted bytes. INVALID_ARGUMENT: no map, a group twice, a slot that two groups have.
  static absl::StatusOr<ClusterMap> Decode(absl::string_view text);
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_CLUSTER_MAP_H_
