// The record of a cluster in the directory: which groups it has, and with which slots each of them began.
//
//      0 "flkclust" | 8 fields (kv/fields.h)
//
// The fields: 1 cluster u64, 2 hash seed u64, 3 layout u32 (table_layout.h); 64 + i: group i, itself a sequence of
// fields: 1 name, 2 its first slots, as pairs {first u16, last u16}, both included, 3 has left u8. Numbers are
// little-endian. All are critical, as in a group's record.
//
// Groups are added; one that has left stays, so that nobody begins with its first slots again. Which slots one has now
// its own record says (configuration.h).
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
#include "kv/cluster_map.h"

namespace farlook::cluster {

struct ClusterRecord {
  struct Group {
    std::string name = {};
    kv::SlotSet first_slots = {};
    bool has_left = false;

    bool operator==(const Group&) const = default;
  };
  uint64_t id = 0;  // random: tells two clusters apart that have one name; never 0
  uint64_t hash_seed = 0;
  TableLayout layout = {};         // of the tables of all groups, so that each can take items of any other
  std::vector<Group> groups = {};  // at most kv::kMaxGroups

  const Group* Find(absl::string_view group) const;  // null: there is none
  // INVALID_ARGUMENT, and what is wrong with it: a group twice, a slot that two groups began with, ...
  absl::Status Check() const;
  bool operator==(const ClusterRecord&) const = default;
};

// Whatever the groups are, it fits in a record of a directory. REQUIRES record.Check().ok().
std::string EncodeClusterRecord(const ClusterRecord& record);

// Of untrusted bytes; what it returns is Check()ed. FAILED_PRECONDITION: of a later version of Farlook.
absl::StatusOr<ClusterRecord> DecodeClusterRecord(absl::string_view bytes);

// Has the group be one of the cluster, which is made where there is none, with this hash seed and layout; returns the
// record. Nothing changes where the group is in it already, with the same first slots. FAILED_PRECONDITION: it is there
// with other ones, or another group began with one of them; RESOURCE_EXHAUSTED: the cluster has as many groups as can
// be. Other errors: as of Directory; whether the group was added is not known after those, and the same call tells.
absl::StatusOr<ClusterRecord> EnterCluster(Directory* directory, absl::string_view cluster, absl::string_view group,
                                           const kv::SlotSet& first_slots, uint64_t hash_seed, TableLayout layout);

// Has the group, which has no slots and never will have any again, be one of the cluster no more. Errors as above.
absl::Status LeaveCluster(Directory* directory, absl::string_view cluster, absl::string_view group);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_CLUSTER_RECORD_H_
