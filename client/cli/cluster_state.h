// What the groups of a cluster have and do at present, each by the word of its own primary: what others know of it may
// be a second old.
#ifndef FARLOOK_CLIENT_CLI_CLUSTER_STATE_H_
#define FARLOOK_CLIENT_CLI_CLUSTER_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/cli/move_status.h"
#include "client/cli/slot_plan.h"
#include "kv/cluster_map.h"

namespace farlook::cli {

struct GroupState {
  std::string name = {};
  bool serves = false;  // else none of its servers has begun: then its slots are what others know
  kv::SlotSet slots = {};
  MoveStatus moves = {};
};
using ClusterState = std::vector<GroupState>;

// NOT_FOUND: the cluster has no such group. Other errors: those of Store.
absl::StatusOr<GroupState> LookAtGroup(const Context& context, const std::string& name);
// All of them, by name. None: the server is of no cluster.
absl::StatusOr<ClusterState> LookAtCluster(const Context& context);

// Null: there is none of this name.
const GroupState* FindGroup(const ClusterState& state, absl::string_view name);
std::vector<std::string> GroupNames(const ClusterState& state);
// One that takes slots; null: none does.
const GroupState* FindTaker(const ClusterState& state);
// Whether any group takes or gives slots, or has yet to hear that it has given them.
bool IsMoving(const ClusterState& state);
// FAILED_PRECONDITION: a slot is of no group that serves, or of two; says what to do.
absl::Status CheckWhole(const ClusterState& state);

// What the groups that serve have; those that take slots as if they had them already.
std::vector<GroupSlots> SlotsOf(const ClusterState& state);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLUSTER_STATE_H_
