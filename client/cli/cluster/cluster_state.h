// The slots and moves of a cluster's groups, each as reported by its own primary: what other groups know may be a
// second old.
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_CLUSTER_STATE_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_CLUSTER_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/cluster/move_status.h"
#include "client/cli/cluster/slot_plan.h"
#include "client/cli/context/command.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cli {

struct GroupState {
  std::string name = {};
  bool serves = false;  // else none of its servers has begun: then `slots` is what other groups know
  kv::SlotSet slots = {};
  MoveStatus moves = {};
};
using ClusterState = std::vector<GroupState>;

// Returns the state of a group. NOT_FOUND: the cluster has no such group. Other errors: those of Store.
absl::StatusOr<GroupState> LookAtGroup(const Context& context, const std::string& name);
// Returns the states of all groups, by name; none if the server is in no cluster.
absl::StatusOr<ClusterState> LookAtCluster(const Context& context);

// Returns null if there is none of this name.
const GroupState* FindGroup(const ClusterState& state, absl::string_view name);
std::vector<std::string> GroupNames(const ClusterState& state);
// Returns a group that takes slots, or null.
const GroupState* FindTaker(const ClusterState& state);
// Returns whether any group takes or gives slots, or is still to learn that slots were taken.
bool IsMoving(const ClusterState& state);
// FAILED_PRECONDITION: a slot has no group that serves, or two; the message says what to do.
absl::Status CheckWhole(const ClusterState& state);

// Returns the slots of groups that serve, including those that a group is just taking.
std::vector<GroupSlots> SlotsOf(const ClusterState& state);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_CLUSTER_STATE_H_
