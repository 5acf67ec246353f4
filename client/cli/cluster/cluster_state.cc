#include "client/cli/cluster/cluster_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::cli {
namespace {

absl::Status BadRanges(const ClusterGroup& group) {
  return absl::InternalError(absl::StrCat("the slots of group ", group.name, " are not understood: ",
                                          group.slot_ranges.substr(0, 80), "; use a kv_cli of the server's release"));
}

}  // namespace

absl::StatusOr<GroupState> LookAtGroup(const Context& context, const std::string& name) {
  GroupState state = {.name = name, .serves = true};
  const absl::StatusOr<std::string> text = context.store->GroupStatus(context.At(name));
  if (!text.ok()) return text.status();
  absl::StatusOr<MoveStatus> moves = ParseMoveStatus(*text);
  if (!moves.ok()) return moves.status();
  state.moves = *std::move(moves);
  // About itself a group reports the present state.
  const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(name));
  if (!groups.ok()) return groups.status();
  const auto found =
      std::find_if(groups->begin(), groups->end(), [&](const ClusterGroup& group) { return group.name == name; });
  if (found == groups->end()) return absl::NotFoundError(absl::StrCat("the cluster has no group ", name));
  const absl::StatusOr<kv::SlotSet> slots = kv::ParseSlots(found->slot_ranges);
  if (!slots.ok()) return BadRanges(*found);
  state.slots = *slots;
  return state;
}

absl::StatusOr<ClusterState> LookAtCluster(const Context& context) {
  const absl::StatusOr<std::vector<ClusterGroup>> groups = context.store->Groups(context.At(""));
  if (!groups.ok()) return groups.status();
  ClusterState state;
  for (const ClusterGroup& group : *groups) {
    if (group.members.empty()) {
      const absl::StatusOr<kv::SlotSet> slots = kv::ParseSlots(group.slot_ranges);
      if (!slots.ok()) return BadRanges(group);
      state.push_back({.name = group.name, .serves = false, .slots = *slots});
      continue;
    }
    absl::StatusOr<GroupState> one = LookAtGroup(context, group.name);
    // It has left the cluster, and the asked group does not know yet.
    if (absl::IsNotFound(one.status())) continue;
    if (!one.ok()) return one.status();
    state.push_back(*std::move(one));
  }
  return state;
}

const GroupState* FindGroup(const ClusterState& state, absl::string_view name) {
  const auto found =
      std::find_if(state.begin(), state.end(), [name](const GroupState& group) { return group.name == name; });
  return found == state.end() ? nullptr : &*found;
}

std::vector<std::string> GroupNames(const ClusterState& state) {
  std::vector<std::string> names;
  for (const GroupState& group : state) names.push_back(group.name);
  return names;
}

const GroupState* FindTaker(const ClusterState& state) {
  const auto found =
      std::find_if(state.begin(), state.end(), [](const GroupState& group) { return group.moves.taking.has_value(); });
  return found == state.end() ? nullptr : &*found;
}

bool IsMoving(const ClusterState& state) {
  return std::any_of(state.begin(), state.end(), [](const GroupState& group) { return !group.moves.none(); });
}

absl::Status CheckWhole(const ClusterState& state) {
  kv::SlotSet served, twice;
  for (const GroupState& group : state) {
    if (!group.serves && group.slots.any()) {
      return absl::FailedPreconditionError(absl::StrCat("the cluster is not whole: group ", group.name, " has slots ",
                                                        kv::FormatSlots(group.slots),
                                                        ", and none of its servers serves: start them"));
    }
    twice |= served & group.slots;
    served |= group.slots;
  }
  if (!served.all()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cluster is not whole: slots ", kv::FormatSlots(~served),
                     " have no group: start one with kv_server --slots=", kv::FormatSlots(~served)));
  }
  if (twice.any()) {
    return absl::FailedPreconditionError(absl::StrCat("two groups claim the slots ", kv::FormatSlots(twice),
                                                      ": try again when `cluster status` shows one"));
  }
  return absl::OkStatus();
}

std::vector<GroupSlots> SlotsOf(const ClusterState& state) {
  std::vector<GroupSlots> slots;
  std::vector<SlotMove> moves;
  for (const GroupState& group : state) {
    if (!group.serves) continue;
    slots.push_back({group.name, group.slots});
    if (const auto& taking = group.moves.taking; taking.has_value()) {
      moves.push_back({taking->from, group.name, taking->slots});
    }
  }
  return SlotsAfter(std::move(slots), moves);
}

}  // namespace farlook::cli
