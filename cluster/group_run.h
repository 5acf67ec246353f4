// One random run of a simulated group: members with the directory, records, a reader with leases, each paused between
// any two of its steps. Of replication it has what the rules need: ordered records, acknowledgements that are late, a
// tail that all members agree on.
#ifndef FARLOOK_CLUSTER_GROUP_RUN_H_
#define FARLOOK_CLUSTER_GROUP_RUN_H_

#include <cstdint>
#include <string>

namespace farlook::cluster {

struct RunResult {
  std::string wrong;  // what was stale, or lost; empty: nothing
  int writes = 0, gets = 0, promotions = 0, additions = 0, removals = 0, unknown = 0, stepped_down = 0, crashes = 0;
  int left = 0;  // primaries, in order
};

RunResult RunGroup(uint64_t seed, int steps);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_GROUP_RUN_H_
