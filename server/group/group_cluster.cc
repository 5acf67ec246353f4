// A group's entry into its cluster, and the cluster's map. Slots that move: slot_giver.h, slot_taker.h, slot_settler.h.
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/cluster_record.h"
#include "server/base/log.h"
#include "server/group/group.h"

namespace farlook::server {

absl::Status Group::CheckEntry() {
  const Options& options = membership_.options();
  if (has_begun() || options.cluster.empty()) return absl::OkStatus();
  auto entry = membership_.directory()->Get(options.cluster, cluster::Freshness::kLatest);
  if (!entry.ok()) return entry.status();
  if (entry->revision == 0) return absl::OkStatus();
  const auto there = cluster::DecodeClusterRecord(entry->value);
  if (!there.ok()) return there.status();
  if (absl::Status status = options.accepts(there->layout); !status.ok()) return status;
  return cluster::CheckEntry(*there, options.cluster, options.name, options.slots);
}

absl::Status Group::EnterCluster() {
  const Options& options = membership_.options();
  if (has_begun() || options.cluster.empty()) return absl::OkStatus();
  if (absl::Status status = CheckEntry(); !status.ok()) return status;
  auto record = cluster::EnterCluster(membership_.directory(), options.cluster, options.name, options.slots,
                                      options.hash_seed, options.layout);
  if (!record.ok()) return record.status();
  // Another group may have begun the cluster meanwhile.
  if (absl::Status status = options.accepts(record->layout); !status.ok()) return status;
  first_.cluster = options.cluster;
  first_.slots = options.slots;
  first_.hash_seed = record->hash_seed;
  first_.layout = record->layout;
  membership_.cluster_watch()->Begin(*std::move(record));
  return absl::OkStatus();
}

// Checks the cluster of an existing group, and reads its record.
absl::Status Group::CheckCluster() {
  const Options& options = membership_.options();
  if (!options.cluster.empty() && options.cluster != first_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", options.name, " is in ", first_.cluster.empty() ? "no cluster" : "cluster ",
                     first_.cluster, ", and --cluster says ", options.cluster,
                     ": a group cannot change its cluster; omit the flag, or begin a group with another name"));
  }
  if (first_.cluster.empty()) return absl::OkStatus();
  // So that the map is known as soon as this server serves. It may serve without: the watch repeats the read.
  auto entry = membership_.directory()->Get(first_.cluster, cluster::Freshness::kMaybeOld);
  auto record = entry.ok() ? cluster::DecodeClusterRecord(entry->value) : entry.status();
  if (record.ok()) {
    membership_.cluster_watch()->Begin(*std::move(record));
  } else {
    Log(LogLevel::kWarning, "the cluster's record cannot be read",
        {{"cluster", first_.cluster}, {"reason", record.status().message()}});
  }
  return absl::OkStatus();
}

void Group::RefreshMap() {
  if (!membership_.member().Serves() || restores_ || membership_.configuration().cluster.empty()) return;
  membership_.cluster_watch()->Look(membership_.directory()).IgnoreError();  // the map stays as it was
}

std::optional<std::string> Group::Map() const {
  if (membership_.serving().announced().cluster.empty()) return std::nullopt;
  return membership_.cluster_watch().Map();
}

}  // namespace farlook::server
