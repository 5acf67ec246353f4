// The record of a cluster in the directory: its groups, and the slots with which each of them began.
//
//      0 "flkclust" | 8 fields (kv/wire/fields.h)
//
// The fields: 1 cluster u64, 2 hash seed u64, 3 layout u32 (table_layout.h); 64 + i: group i, itself a sequence of
// fields: 1 name, 2 its first slots, as pairs {first u16, last u16}, both included, 3 has left u8. Numbers are
// little-endian. All fields are critical, as in a group's record.
//
// Groups are only added. A group that has left stays in the record, so that no other group begins with its first slots.
// The present slots of a group are in its own record (configuration.h).
#ifndef FARLOOK_CLUSTER_CLUSTER_RECORD_H_
#define FARLOOK_CLUSTER_CLUSTER_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/directory.h"
#include "cluster/table_layout.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cluster {

struct ClusterRecord {
  struct Group {
    std::string name = {};
    kv::SlotSet first_slots = {};
    bool has_left = false;

    bool operator==(const Group&) const = default;
  };
  uint64_t id = 0;  // random: distinguishes two clusters with the same name; never 0
  uint64_t hash_seed = 0;
  TableLayout layout = {};         // of the tables of all groups, so that each can take items of any other
  std::vector<Group> groups = {};  // at most kv::kMaxGroups

  const Group* Find(absl::string_view group) const;  // null: there is none
  // INVALID_ARGUMENT names the problem: a group twice, a slot that two groups began with, ...
  absl::Status Check() const;
  bool operator==(const ClusterRecord&) const = default;
};

// The result fits in a record of a directory, whatever the groups are. REQUIRES record.Check().ok().
std::string EncodeClusterRecord(const ClusterRecord& record);

// Decodes untrusted bytes; the result is Check()ed. FAILED_PRECONDITION: of a later version of Farlook.
absl::StatusOr<ClusterRecord> DecodeClusterRecord(absl::string_view bytes);

// Adds the group to the cluster, and creates the cluster if needed, with this hash seed and layout; returns the record.
// Does nothing if the group is already in it, with the same first slots. FAILED_PRECONDITION: the group is in it with
// other first slots, or another group began with one of them. RESOURCE_EXHAUSTED: the cluster has the maximum number of
// groups. Other errors: see Directory; after these it is unknown whether the group was added, and repeating the call
// determines it.
absl::StatusOr<ClusterRecord> EnterCluster(Directory* directory, absl::string_view cluster, absl::string_view group,
                                           const kv::SlotSet& first_slots, uint64_t hash_seed, TableLayout layout);

// Returns whether a group that is not in the record may enter it: there is room, and no other group began with any of
// its first slots.
absl::Status CheckEntry(const ClusterRecord& record, absl::string_view cluster, absl::string_view group,
                        const kv::SlotSet& first_slots);

// Removes the group, which has no slots and will never have any again, from the cluster. Errors as above.
absl::Status LeaveCluster(Directory* directory, absl::string_view cluster, absl::string_view group);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_CLUSTER_RECORD_H_
