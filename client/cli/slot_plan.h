// Which slots of a cluster go from which group to which, so that each has its share (docs/cluster.md). Knows no server.
//
// All plans move as few slots as possible, in at most one move for each two groups, keep ranges together where that is
// possible, and are the same for the same groups, in whatever order they are given.
#ifndef FARLOOK_CLIENT_CLI_SLOT_PLAN_H_
#define FARLOOK_CLIENT_CLI_SLOT_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/cluster_map.h"

namespace farlook::cli {

// What a group has. No slot is of two.
struct GroupSlots {
  std::string name = {};
  kv::SlotSet slots = {};
};

struct SlotMove {
  std::string from = {};
  std::string to = {};
  kv::SlotSet slots = {};
};

// Afterwards no two groups' numbers of slots differ by more than one. Of n groups with r ranges there are at most n - 1
// moves, and then at most r + n - 1 ranges.
std::vector<SlotMove> PlanBalance(std::vector<GroupSlots> groups);
// The group, which is one of them, has its equal share afterwards, or more if it had; from those that have the most.
std::vector<SlotMove> PlanShare(absl::string_view group, std::vector<GroupSlots> groups);
// The group, which is one of several, has none afterwards; those get them that have the fewest.
std::vector<SlotMove> PlanRemoval(absl::string_view group, std::vector<GroupSlots> groups);

// Cuts those whose slots, as kv::FormatSlots writes them, take more bytes. REQUIRES room for one range: 9 bytes.
std::vector<SlotMove> CutToFit(const std::vector<SlotMove>& moves, size_t max_text_bytes);

// What the groups have when these are done. A group that is not named in `groups` gets nothing.
std::vector<GroupSlots> SlotsAfter(std::vector<GroupSlots> groups, const std::vector<SlotMove>& moves);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_SLOT_PLAN_H_
