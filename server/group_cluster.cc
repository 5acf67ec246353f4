// A group's part in its cluster: it enters with its first slots before anybody can ask for one of its keys, and tells
// clients which slots it has, and the cluster's map.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/cluster_record.h"
#include "server/group.h"
#include "server/log.h"

namespace farlook::server {

using cluster::Configuration;

absl::Status Group::EnterCluster() {
  if (entry_.revision != 0 || options_.cluster.empty()) return absl::OkStatus();
  auto record =
      cluster::EnterCluster(directory_.get(), options_.cluster, options_.url.name, options_.slots, options_.hash_seed);
  if (!record.ok()) return record.status();
  first_.cluster = options_.cluster;
  first_.slots = options_.slots;
  first_.hash_seed = record->hash_seed;
  cluster_watch_.Begin(*std::move(record));
  return absl::OkStatus();
}

// Of one that is there.
absl::Status Group::CheckCluster() {
  if (!options_.cluster.empty() && options_.cluster != first_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", options_.url.name, " is in ", first_.cluster.empty() ? "no cluster" : "cluster ",
                     first_.cluster, ", and --cluster says ", options_.cluster,
                     ": a group stays where it began; leave the flag out, or begin a group of another name"));
  }
  if (first_.cluster.empty()) return absl::OkStatus();
  // So that a map is there as soon as this server serves. Without one it does as well: the watch goes on to look.
  auto entry = directory_->Get(first_.cluster, cluster::Freshness::kMaybeOld);
  auto record = entry.ok() ? cluster::DecodeClusterRecord(entry->value) : entry.status();
  if (record.ok()) {
    cluster_watch_.Begin(*std::move(record));
  } else {
    Log(LogLevel::kWarning, "the cluster's record cannot be read",
        {{"cluster", first_.cluster}, {"reason", record.status().message()}});
  }
  return absl::OkStatus();
}

// What clients are told of: before they are let in, and whenever it changes.
void Group::TellCluster(const Configuration& configuration) {
  if (configuration.cluster.empty()) return;
  serving_.SetSlots(configuration.slots);
  cluster_watch_.SetOwn(configuration);
}

void Group::WatchCluster() {
  if (member_.configuration().cluster.empty()) return;
  cluster_watch_.Start([this] { return options_.url.Open(); });
}

void Group::DescribeCluster() {
  const size_t groups = cluster_watch_.groups();
  absl::MutexLock lock(&mutex_);
  if (member_.epoch() == 0 || member_.configuration().cluster.empty()) return;
  figures_.is_in_cluster = true;
  figures_.cluster_groups = groups;
  figures_.cluster_slots = member_.configuration().slots.count();
}

std::optional<std::string> Group::Map() const {
  if (serving_.told().cluster.empty()) return std::nullopt;
  return cluster_watch_.Map();
}

}  // namespace farlook::server
