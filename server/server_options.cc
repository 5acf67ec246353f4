#include "server/server_options.h"

#include <algorithm>
#include <bit>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cluster/configuration.h"
#include "kv/cell_region.h"
#include "kv/cluster_map.h"
#include "kv/counter_value.h"
#include "server/byte_size.h"
#include "server/group_url.h"
#include "server/session.h"

namespace farlook::server {
namespace {

// Each partition has blocks and segments of its own, so a small region is not cut into many.
constexpr uint64_t kBytesPerPartition = 2 << 20;
// Who fills a backup holds the lock of a partition most of the time, and writes go on in the others. All members, and
// all groups of a cluster, have as many as the first one, and one that comes later may have more workers.
constexpr uint64_t kLeastPartitionsOfAGroup = 16;

// A cache holds at least so many values of the longest kind; and there is little to choose from below so many bytes.
constexpr uint64_t kLeastValuesOfACache = 2;
constexpr uint64_t kLeastCacheBytes = 32 << 20;

// What is waited for longer than that is not slow, and its nanoseconds fit.
constexpr int64_t kMostSlowMs = 24 * 60 * 60 * 1000;

// Of groups. A primary that is only busy, or a client between two looks, must not be taken for one that is gone.
constexpr int64_t kLeastSuspicionMs = 20, kMostSuspicionMs = 60 * 60 * 1000;
constexpr int64_t kMostReplicas = cluster::kMaxReplicas;
constexpr int64_t kLeastLeaseMs = 10, kMostLeaseMs = kv::kMaxLeaseUs / 1000;

absl::Status OutOfRange(absl::string_view flag, uint64_t least, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be from ", least, " to ", most));
}

// Addresses stand in the cluster's map, which is text.
bool HasSpace(absl::string_view address) {
  return !std::all_of(address.begin(), address.end(), [](char c) { return absl::ascii_isgraph(c); });
}

absl::Status CheckCluster(const ServerOptions& options, absl::string_view group) {
  if (!kv::IsClusterName(options.cluster)) {
    return absl::InvalidArgumentError(
        "--cluster must be a name of at most 128 letters, digits, '_', '-' and '.', the first no '.'");
  }
  if (group == options.cluster) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--cluster=", options.cluster, " is the name of the group too: each has a record of its own in the directory"));
  }
  if (std::any_of(options.listen.begin(), options.listen.end(), HasSpace)) {
    return absl::InvalidArgumentError("--listen: with --cluster an address is without spaces");
  }
  const absl::Status slots = kv::ParseSlots(options.slots).status();
  return slots.ok() ? slots : absl::InvalidArgumentError(absl::StrCat("bad --slots: ", slots.message()));
}

// What is said of its group, and of the group's cluster.
absl::Status CheckGroup(const ServerOptions& options) {
  if (!options.group.empty()) {
    const absl::StatusOr<GroupUrl> group = GroupUrl::Parse(options.group);
    if (!group.ok()) return group.status();
    if (options.evict) {
      return absl::InvalidArgumentError(
          "--evict and --group exclude each other: what is evicted here is not at the backups");
    }
    if (!options.cluster.empty()) {
      if (absl::Status status = CheckCluster(options, group->name); !status.ok()) return status;
    }
  }
  if (!options.cluster.empty() && options.group.empty()) {
    return absl::InvalidArgumentError("--cluster is of a group: say which with --group");
  }
  if (!options.slots.empty() && options.cluster.empty()) {
    return absl::InvalidArgumentError("--slots are of a cluster: say which with --cluster");
  }
  if (options.begin_group_anew != 0 && options.group.empty()) {
    return absl::InvalidArgumentError("--begin_group_anew is of a group: say which with --group");
  }
  if (!options.group_user.empty() && (options.group.empty() || options.users.empty())) {
    return absl::InvalidArgumentError(
        "--group_user is one of --users, as whom this server follows others of its --group");
  }
  if (options.suspicion_ms < kLeastSuspicionMs || options.suspicion_ms > kMostSuspicionMs) {
    return absl::InvalidArgumentError("--suspicion must be from 20ms to 1h");
  }
  if (options.lease_ms < kLeastLeaseMs || options.lease_ms > kMostLeaseMs) {
    return absl::InvalidArgumentError("--lease must be from 10ms to 60s");
  }
  if (options.replicas < 1 || options.replicas > kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("--replicas must be from 1 to ", kMostReplicas));
  }
  if (options.min_insync < 1 || options.min_insync > options.replicas) {
    return absl::InvalidArgumentError("--min_insync must be from 1 to --replicas");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOptions(const ServerOptions& options) {
  if (options.listen.empty()) {
    return absl::InvalidArgumentError("no address to listen at: say --listen=shm:///run/farlook/kv");
  }
  if (options.memory_bytes < kv::kMinRegionBytes || options.memory_bytes > kv::kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--memory must be from ", FormatByteSize(kv::kMinRegionBytes),
                                                   " to ", FormatByteSize(kv::kMaxRegionBytes)));
  }
  if (options.counter_memory_bytes != 0 && (options.counter_memory_bytes < kv::kMinCellRegionBytes ||
                                            options.counter_memory_bytes > kv::kMaxCellRegionBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("--counter_memory must be 0, or from ",
                                                   FormatByteSize(kv::kMinCellRegionBytes), " to ",
                                                   FormatByteSize(kv::kMaxCellRegionBytes)));
  }
  const uint64_t least_cache = std::max(kLeastCacheBytes, kLeastValuesOfACache * options.max_value_bytes);
  if (options.evict && options.memory_bytes < least_cache) {
    return absl::InvalidArgumentError(absl::StrCat("--evict wants a --memory of at least ",
                                                   FormatByteSize(kLeastCacheBytes), " and of ", kLeastValuesOfACache,
                                                   " times --max_value_bytes: here ", FormatByteSize(least_cache)));
  }
  if (absl::Status status = CheckGroup(options); !status.ok()) return status;
  if (options.counter_patience_ms < 1) return absl::InvalidArgumentError("--counter_patience must be at least 1ms");
  if (options.workers < 1 || options.workers > SessionTable::kMaxWorkers) {
    return OutOfRange("workers", 1, SessionTable::kMaxWorkers);
  }
  if (options.max_value_bytes < 1 || options.max_value_bytes > kv::kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_value_bytes must be from 1 to ", FormatByteSize(kv::kMaxValueBytes)));
  }
  if (options.window < 1 || options.window > kv::kMaxWindow) return OutOfRange("window", 1, kv::kMaxWindow);
  if (options.max_clients < 1) return absl::InvalidArgumentError("--max_clients must be at least 1");
  if (options.max_clients > kv::kMaxAtomicsInFlight && options.counter_memory_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--max_clients must be at most ", kv::kMaxAtomicsInFlight,
                                                   " where there are counters (--counter_memory)"));
  }
  if (options.liveness_ms < 100) return absl::InvalidArgumentError("--liveness must be at least 100ms");
  if (options.slow_ms < 0 || options.slow_ms > kMostSlowMs) return OutOfRange("slow_ms", 0, kMostSlowMs);
  if (options.spin_us < 0) return absl::InvalidArgumentError("--spin_us must not be negative");
  if (options.keep_sessions_ms < 0 || options.drain_timeout_ms < 0) {
    return absl::InvalidArgumentError("--keep_sessions and --drain_timeout must not be negative");
  }
  return absl::OkStatus();
}

// Twice as many as workers, where there are several, so that they meet less often; but no more than the memory can
// feed, even if workers then share partitions.
int PartitionsFor(const ServerOptions& options) {
  const auto workers = static_cast<uint64_t>(options.workers);
  uint64_t wanted = workers == 1 ? 1 : 2 * std::bit_ceil(workers);
  if (!options.group.empty()) wanted = std::max(wanted, kLeastPartitionsOfAGroup);
  if (wanted == 1) return 1;
  const uint64_t room = std::bit_floor(std::max<uint64_t>(options.memory_bytes / kBytesPerPartition, 2));
  return static_cast<int>(std::min<uint64_t>({wanted, kv::kMaxPartitions, room}));
}

absl::Status CheckPartitions(const ServerOptions& options, int partitions) {
  const uint64_t least = static_cast<uint64_t>(partitions) * kBytesPerPartition;
  if (partitions <= PartitionsFor(options) || options.memory_bytes >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--memory=", FormatByteSize(options.memory_bytes), ": the tables of --group=", options.group, " have ",
      partitions, " partitions, as the first server of the group, or of its cluster, chose, and want at least ",
      FormatByteSize(least)));
}

}  // namespace farlook::server
