#include "server/daemon/server_options.h"

#include <algorithm>
#include <bit>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cluster/configuration.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/wire/cluster_map.h"
#include "server/base/byte_size.h"
#include "server/group/group_url.h"
#include "server/session/session.h"

namespace farlook::server {
namespace {

// Each partition has blocks and segments of its own, so a small region is not cut into many.
constexpr uint64_t kBytesPerPartition = 2 << 20;
// Filling a backup holds the lock of one partition most of the time, while writes go on in the others. All members, and
// all groups of a cluster, use the number of the first; a later member may have more workers.
constexpr uint64_t kLeastPartitionsOfAGroup = 16;

// A cache must hold at least this many values of the longest kind. With fewer bytes eviction has little choice.
constexpr uint64_t kLeastValuesOfACache = 2;
constexpr uint64_t kLeastCacheBytes = 32 << 20;

// Upper limits: longer values are pointless, and these still fit in nanoseconds.
constexpr int64_t kHourMs = 3'600'000, kDayMs = 24 * kHourMs, kMostKeepMs = 365 * kDayMs;
constexpr int64_t kMostSpinUs = 1'000 * kHourMs;
constexpr int64_t kMostSlowMs = 24 * 60 * 60 * 1000;

// Limits for groups. A busy primary, or a client between two checks, must not be mistaken for a lost one.
constexpr int64_t kLeastSuspicionMs = 20, kMostSuspicionMs = 60 * 60 * 1000;
constexpr int64_t kMostReplicas = cluster::kMaxReplicas;
constexpr int64_t kLeastLeaseMs = 10, kMostLeaseMs = kv::kMaxLeaseUs / 1000;

absl::Status OutOfRange(absl::string_view flag, uint64_t least, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be from ", least, " to ", most));
}

// Addresses are stored in the cluster's map, which is text.
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

// Checks what other members need in order to reach this server, and to admit it.
absl::Status CheckMember(const ServerOptions& options) {
  const absl::string_view address = options.listen[0];
  for (const absl::string_view all : {"://0.0.0.0:", "://[::]:", "://:::"}) {
    if (!absl::StrContains(address, all)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--listen=", address,
                                                   ": clients and the other members of --group=", options.group,
                                                   " connect to this very address: name one of this host's, first"));
  }
  if (!options.users.empty() && options.group_user.empty() && !absl::StartsWith(address, "shm:")) {
    return absl::InvalidArgumentError(
        "--group_user is missing: with --users, name the user as which this server follows others of its --group; "
        "the user needs a secret and the role admin");
  }
  return absl::OkStatus();
}

absl::Status CheckMemoryFile(const ServerOptions& options) {
  if (options.memory_file.path.empty()) {
    return options.memory_file.begin_empty ? absl::InvalidArgumentError("--begin_empty requires --memory_file")
                                           : absl::OkStatus();
  }
  if (!options.group.empty()) {
    return absl::InvalidArgumentError(
        "--memory_file and --group exclude each other: a member that ended is filled by the others of its group");
  }
  return absl::OkStatus();
}

// Checks the options of its group, and of the group's cluster.
absl::Status CheckGroup(const ServerOptions& options) {
  if (!options.group.empty()) {
    const absl::StatusOr<GroupUrl> group = GroupUrl::Parse(options.group);
    if (!group.ok()) return group.status();
    if (options.evict) {
      return absl::InvalidArgumentError("--evict and --group exclude each other: backups do not replicate evictions");
    }
    if (!options.cluster.empty()) {
      if (absl::Status status = CheckCluster(options, group->name); !status.ok()) return status;
    }
    if (absl::Status status = CheckMember(options); !status.ok()) return status;
  }
  if (!options.cluster.empty() && options.group.empty()) {
    return absl::InvalidArgumentError("--cluster requires --group");
  }
  if (!options.slots.empty() && options.cluster.empty()) {
    return absl::InvalidArgumentError("--slots requires --cluster");
  }
  if (options.begin_group_anew.epoch != 0 && options.group.empty()) {
    return absl::InvalidArgumentError("--begin_group_anew requires --group");
  }
  if (options.begin_group_anew.from_copy && options.begin_group_anew.epoch == 0) {
    return absl::InvalidArgumentError("--from_copy requires --begin_group_anew");
  }
  if (!options.group_user.empty() && (options.group.empty() || options.users.empty())) {
    return absl::InvalidArgumentError("--group_user requires --group and --users");
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
    return absl::InvalidArgumentError("no address to listen at: set --listen=shm:///run/farlook/kv");
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
    return absl::InvalidArgumentError(absl::StrCat("--evict needs a --memory of at least ",
                                                   FormatByteSize(kLeastCacheBytes), " and of ", kLeastValuesOfACache,
                                                   " times --max_value_bytes: here ", FormatByteSize(least_cache)));
  }
  if (absl::Status status = CheckMemoryFile(options); !status.ok()) return status;
  if (absl::Status status = CheckGroup(options); !status.ok()) return status;
  if (options.counter_patience_ms < 1 || options.counter_patience_ms > kDayMs) {
    return absl::InvalidArgumentError("--counter_patience must be from 1ms to 24h");
  }
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
  if (options.liveness_ms < 100 || options.liveness_ms > kHourMs) {
    return absl::InvalidArgumentError("--liveness must be from 100ms to 1h");
  }
  if (options.slow_ms < 0 || options.slow_ms > kMostSlowMs) return OutOfRange("slow_ms", 0, kMostSlowMs);
  if (options.spin_us < 0 || options.spin_us > kMostSpinUs) return OutOfRange("spin_us", 0, kMostSpinUs);
  if (options.keep_sessions_ms < 0 || options.keep_sessions_ms > kMostKeepMs) {
    return absl::InvalidArgumentError("--keep_sessions must be from 0 to 8760h, a year");
  }
  if (options.drain_timeout_ms < 0 || options.drain_timeout_ms > kDayMs) {
    return absl::InvalidArgumentError("--drain_timeout must be from 0 to 24h");
  }
  return absl::OkStatus();
}

// Twice the number of workers, if there are several, so that they collide less often. But no more than the memory can
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
