// Plans the moves of slots between groups, so that each has its share (docs/cluster-design.md). Uses no server.
//
// All plans move as few slots as possible, with at most one move for each pair of groups, and keep ranges together if
// possible. The same groups give the same plan, in whatever order.
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_SLOT_PLAN_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_SLOT_PLAN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cli {

// The slots of a group. No slot belongs to two.
struct GroupSlots {
  std::string name = {};
  kv::SlotSet slots = {};
};

struct SlotMove {
  std::string from = {};
  std::string to = {};
  kv::SlotSet slots = {};
};

// Afterwards no two groups' numbers of slots differ by more than one. For n groups with r ranges there are at most n -
// 1 moves, and afterwards at most r + n - 1 ranges.
std::vector<SlotMove> PlanBalance(std::vector<GroupSlots> groups);
// Gives the group, which is one of `groups`, at least its equal share, taken from those that have the most.
std::vector<SlotMove> PlanShare(absl::string_view group, std::vector<GroupSlots> groups);
// Removes all slots from the group, which is one of several; they go to those that have the fewest.
std::vector<SlotMove> PlanRemoval(absl::string_view group, std::vector<GroupSlots> groups);

// Splits moves whose slots, formatted by kv::FormatSlots, are longer. REQUIRES room for one range: 9 bytes.
std::vector<SlotMove> CutToFit(const std::vector<SlotMove>& moves, size_t max_text_bytes);

// Returns the slots of the groups after these moves. A group that is not in `groups` gets nothing.
std::vector<GroupSlots> SlotsAfter(std::vector<GroupSlots> groups, const std::vector<SlotMove>& moves);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_SLOT_PLAN_H_
