#include "server/daemon/stat_text.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kv/wire/message.h"
#include "server/base/lock_times.h"
#include "server/base/log.h"
#include "server/base/request_names.h"

namespace farlook::server {
namespace {

class Lines {
 public:
  explicit Lines(absl::string_view prefix) : prefix_(prefix) {}

  void Add(absl::string_view name, const absl::AlphaNum& value) {
    if (absl::StartsWith(name, prefix_)) absl::StrAppend(&text_, name, " ", value, "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  const absl::string_view prefix_;
  std::string text_;
};

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::string Seconds(double seconds) { return absl::StrFormat("%.3f", seconds); }

void AddFacts(const ServerFacts& facts, const ServerMoment& moment, Lines& lines) {
  lines.Add("version", facts.version);
  lines.Add("incarnation", absl::Hex(facts.incarnation, absl::kZeroPad16));
  lines.Add("restart_kind", facts.restart.kind);
  lines.Add("restart_ms", facts.restart.ms);
  lines.Add("restarted_keys", facts.restart.keys);
  lines.Add("addresses", absl::StrJoin(facts.addresses, ","));
  lines.Add("uptime_s", Seconds(moment.uptime_s));
  lines.Add("cpu_user_s", Seconds(moment.cpu_user_s));
  lines.Add("cpu_system_s", Seconds(moment.cpu_system_s));
  lines.Add("draining", moment.draining ? 1 : 0);
  lines.Add("page_bytes", facts.page_bytes);
  lines.Add("huge_pages", facts.huge_pages);
  lines.Add("numa_node", facts.numa_node < 0 ? "any" : absl::StrCat(facts.numa_node));
  lines.Add("partitions", facts.partitions);
  lines.Add("max_value_bytes", facts.max_value_bytes);
  lines.Add("window", facts.window);
  lines.Add("max_clients", facts.max_clients);
  lines.Add("evict", facts.evict ? 1 : 0);
  lines.Add("client_figures", facts.client_figures ? 1 : 0);
  if (moment.group.replicas == 0) return;
  lines.Add("group_replicas", moment.group.replicas);
  lines.Add("group_members", moment.group.members);
  lines.Add("group_min_insync", moment.group.min_insync);
  lines.Add("group_removed_backups", moment.group.removed_backups);
  lines.Add("group_waits_for_member", moment.group.waits_for_member ? 1 : 0);
  lines.Add("group_directory_away", moment.group.directory_is_away ? 1 : 0);
  lines.Add("group_lag_records", moment.group.lag_records);
  lines.Add("group_lag_ms", moment.group.lag_ms);
  if (!moment.group.is_in_cluster) return;
  lines.Add("cluster_groups", moment.group.cluster_groups);
  lines.Add("cluster_moves", moment.group.cluster_moves);
  lines.Add("cluster_slots", moment.group.cluster_slots);
}

constexpr absl::string_view kKinds[] = {"small", "medium", "large", "run"};

void AddTable(const kv::TableStats& table, Lines& lines) {
  lines.Add("keys", table.keys);
  lines.Add("key_bytes", table.key_bytes);
  lines.Add("value_bytes", table.value_bytes);
  lines.Add("region_bytes", table.region_bytes);
  lines.Add("free_bytes", table.free_bytes);
  lines.Add("used_bytes", table.used_bytes);
  lines.Add("reclaimable_bytes", table.reclaimable_bytes);
  lines.Add("reserve_bytes", table.reserve_bytes);
  lines.Add("overhead_bytes", table.overhead_bytes);
  lines.Add("largest_value_bytes", table.largest_value_bytes);
  lines.Add("largest_value_after_moving_bytes", table.largest_after_bytes);
  for (size_t i = 0; i < table.blocks.size(); ++i) {
    lines.Add(absl::StrCat(kKinds[i], "_block_bytes"), table.blocks[i].bytes);
    lines.Add(absl::StrCat(kKinds[i], "_used_bytes"), table.blocks[i].used_bytes);
  }
  lines.Add("index_bytes", table.index_bytes);
  lines.Add("segment_bytes", table.segment_bytes);
  lines.Add("segments", table.segments);
  lines.Add("splits", table.splits);
  lines.Add("merges", table.merges);
  lines.Add("segment_moves", table.segment_moves);
  lines.Add("level", table.level);
  lines.Add("overflow_keys", table.overflow_keys);
  lines.Add("moved_items", table.moved_items);
  lines.Add("expirations", table.expired_items);
  lines.Add("expiry_bytes", table.expiry_bytes);
  lines.Add("puts", table.puts);
  lines.Add("deletes", table.deletes);
}

void AddCounters(const CounterStats& counters, Lines& lines) {
  lines.Add("counters", counters.counters);
  lines.Add("counter_cells", counters.cells);
  lines.Add("counter_cells_free", counters.cells_free);
  lines.Add("counter_cells_quarantined", counters.cells_quarantined);
  lines.Add("counter_holders", counters.holders);
}

template <typename Member>
uint64_t Sum(const std::vector<const WorkerStats*>& workers, Member member) {
  uint64_t sum = 0;
  for (const WorkerStats* worker : workers) sum += member(*worker).value();
  return sum;
}

void AddWorkers(const std::vector<const WorkerStats*>& workers, const ServerMoment& moment, Lines& lines) {
  const auto add = [&](absl::string_view name, Counter WorkerStats::*counter, uint64_t more = 0) {
    const auto of = [counter](const WorkerStats& stats) -> const Counter& { return stats.*counter; };
    lines.Add(name, Sum(workers, of) + more);
  };
  lines.Add("workers", workers.size());
  add("connections", &WorkerStats::connections);
  add("clients_within_atomics", &WorkerStats::clients_within_atomics);
  add("sessions", &WorkerStats::sessions);
  add("kept_sessions", &WorkerStats::kept_sessions);
  add("accepted", &WorkerStats::accepted);
  add("resumed", &WorkerStats::resumed);
  add("refused_resumptions", &WorkerStats::refused_resumptions);
  add("rejected", &WorkerStats::rejected, moment.rejected);
  add("refused", &WorkerStats::refused);
  add("dropped", &WorkerStats::dropped, moment.dropped);
  add("impatient_drops", &WorkerStats::impatient_drops);
  add("silent_drops", &WorkerStats::silent_drops);
  add("failed_proofs", &WorkerStats::failed_proofs);
  for (size_t type = 1; type < size_t{kv::kRequestTypes}; ++type) {
    const auto of = [type](const WorkerStats& stats) -> const Counter& { return stats.requests[type]; };
    lines.Add(absl::StrCat("requests_", TypeName(static_cast<kv::RequestType>(type))), Sum(workers, of));
  }
  add("resent_requests", &WorkerStats::resent_requests);
  for (size_t code = 0; code < kv::kCodes; ++code) {
    const auto of = [code](const WorkerStats& stats) -> const Counter& { return stats.replies[code]; };
    lines.Add(absl::StrCat("replies_", kv::CodeName(static_cast<kv::Code>(code))), Sum(workers, of));
  }
  add("postponed_replies", &WorkerStats::postponed_replies);
  add("looks_at_stuck", &WorkerStats::looks_at_stuck);
  add("message_bytes", &WorkerStats::message_bytes);
  add("kept_bytes", &WorkerStats::kept_bytes);
  add("paused_connections", &WorkerStats::paused_connections);
  add("receive_pauses", &WorkerStats::receive_pauses);
  const auto add_longest = [&](absl::string_view name, Counter WorkerStats::*counter) {
    uint64_t longest = 0;
    for (const WorkerStats* worker : workers) longest = std::max(longest, (worker->*counter).value());
    lines.Add(name, longest);
  };
  add_longest("longest_turn_bytes", &WorkerStats::longest_turn_bytes);
  add_longest("longest_shared_turn_bytes", &WorkerStats::longest_shared_turn_bytes);
  add("held_writes", &WorkerStats::held_writes);
  add("waits_for_room", &WorkerStats::waits_for_room);
  add("waiting_for_room", &WorkerStats::waiting_for_room);
  add_longest("longest_room_wait_us", &WorkerStats::longest_room_wait_us);
  add("slow_requests", &WorkerStats::slow_requests);
  add("room_steps", &WorkerStats::room_steps);
  add("pulls", &WorkerStats::pulls);
  add("pulled_bytes", &WorkerStats::pulled_bytes);
  add("failed_pulls", &WorkerStats::failed_pulls);
  add("cut_pulls", &WorkerStats::cut_pulls);
}

// Figures of a cache; the kinds of blocks from which something was evicted form groups.
void AddCache(const kv::TableStats& table, const std::vector<const WorkerStats*>& workers, Lines& lines) {
  lines.Add("ghost_hits", table.ghost_hits);
  lines.Add("eviction_bytes", table.eviction_bytes);
  const auto add = [&](absl::string_view name, Counter WorkerStats::*counter) {
    lines.Add(name, Sum(workers, [counter](const WorkerStats& stats) -> const Counter& { return stats.*counter; }));
  };
  add("reported_gets", &WorkerStats::reported_gets);
  add("reported_hits", &WorkerStats::reported_hits);
  add("touches", &WorkerStats::touches);
  add("ignored_touches", &WorkerStats::ignored_touches);
  uint64_t sample = 0;
  for (const WorkerStats* worker : workers) sample = std::max(sample, worker->touch_sample.value());
  lines.Add("touch_sample", sample);
}

// Figures of the gets of connected clients, as reported by them.
void AddClients(const std::vector<const WorkerStats*>& workers, Lines& lines) {
  const auto add = [&](absl::string_view name, Counter WorkerStats::*counter) {
    lines.Add(name, Sum(workers, [counter](const WorkerStats& stats) -> const Counter& { return stats.*counter; }));
  };
  add("client_gets", &WorkerStats::client_gets);
  add("client_hits", &WorkerStats::client_hits);
  add("client_gets_per_s", &WorkerStats::client_gets_per_s);
  add("reporting_clients", &WorkerStats::reporting_clients);
  add("clipped_figures", &WorkerStats::clipped_figures);
  DurationBuckets buckets;
  for (const WorkerStats* worker : workers) {
    for (size_t i = 0; i < worker->get_times.size(); ++i) buckets.Add(i, worker->get_times[i].value());
  }
  lines.Add("get_p50_ns", buckets.Quantile(0.5));
  lines.Add("get_p99_ns", buckets.Quantile(0.99));
  lines.Add("get_p999_ns", buckets.Quantile(0.999));
}

// Returns the sum of all durations, as if each lay in the middle of its bucket: exact to an eighth.
uint64_t AboutSum(const DurationBuckets& buckets) {
  uint64_t sum = 0;
  for (size_t i = 0; i < DurationBuckets::kBuckets; ++i) {
    sum += buckets.at(i) * ((i == 0 ? 0 : DurationBuckets::EndOf(i - 1)) + DurationBuckets::EndOf(i)) / 2;
  }
  return sum;
}

// A group of lines that appears while the server runs. First the evictions of each kind of blocks, once there is one;
// after these, the durations of each request type, once one was timed.
constexpr size_t kKindGroups = std::size(kKinds);

DurationBuckets TimesOf(size_t type, const std::vector<const WorkerStats*>& workers) {
  DurationBuckets buckets;
  for (const WorkerStats* worker : workers) {
    for (size_t i = 0; i < DurationBuckets::kBuckets; ++i) buckets.Add(i, worker->request_times[type][i].value());
  }
  return buckets;
}

std::vector<size_t> PresentGroups(const ServerFacts& facts, const kv::TableStats& table,
                                  const std::vector<const WorkerStats*>& workers) {
  std::vector<size_t> present;
  for (size_t i = 0; facts.evict && i < table.evictions.size(); ++i) {
    if (table.evictions[i].evictions != 0) present.push_back(i);
  }
  for (size_t type = 1; type < size_t{kv::kRequestTypes}; ++type) {
    if (TimesOf(type, workers).count() != 0) present.push_back(kKindGroups + type);
  }
  return present;
}

void AddEvictions(const kv::TableStats& table, size_t kind, Lines& lines) {
  lines.Add(absl::StrCat(kKinds[kind], "_evictions"), table.evictions[kind].evictions);
  lines.Add(absl::StrCat(kKinds[kind], "_eviction_age_ms"), table.evictions[kind].age_ms);
}

void AddRequestTimes(const std::vector<const WorkerStats*>& workers, size_t type, Lines& lines) {
  const DurationBuckets buckets = TimesOf(type, workers);
  const std::string name = absl::StrCat("handling_", TypeName(static_cast<kv::RequestType>(type)));
  lines.Add(absl::StrCat(name, "_timed"), buckets.count());
  lines.Add(absl::StrCat(name, "_sum_ns"), AboutSum(buckets));
  lines.Add(absl::StrCat(name, "_p50_ns"), buckets.Quantile(0.5));
  lines.Add(absl::StrCat(name, "_p99_ns"), buckets.Quantile(0.99));
  lines.Add(absl::StrCat(name, "_p999_ns"), buckets.Quantile(0.999));
  for (uint64_t ns = 1024; ns <= uint64_t{1024} << 18; ns *= 4) {
    lines.Add(absl::StrCat(name, "_below_", ns, "_ns"), buckets.Below(ns));
  }
}

// Figures of time under a partition's lock. The bounds are those of DurationBuckets.
void AddLockTimes(const std::vector<const WorkerStats*>& workers, Lines& lines) {
  DurationBuckets buckets;
  uint64_t longest_ns = 0;
  for (const WorkerStats* worker : workers) {
    worker->lock_times.AddTo(&buckets);
    longest_ns = std::max(longest_ns, worker->lock_times.longest_ns());
  }
  lines.Add("lock_holds", buckets.count());
  for (const uint64_t ns : {uint64_t{1024}, uint64_t{8192}, uint64_t{65'536}, uint64_t{196'608}, uint64_t{917'504}}) {
    lines.Add(absl::StrCat("lock_holds_below_", ns, "_ns"), buckets.Below(ns));
  }
  lines.Add("lock_hold_sum_ns", AboutSum(buckets));
  lines.Add("lock_p50_ns", buckets.Quantile(0.5));
  lines.Add("lock_p99_ns", buckets.Quantile(0.99));
  lines.Add("lock_p999_ns", buckets.Quantile(0.999));
  lines.Add("lock_longest_ns", longest_ns);
}

}  // namespace

std::vector<size_t> StatOrder::Add(const std::vector<size_t>& present) {
  absl::MutexLock lock(&mutex_);
  for (const size_t group : present) {
    if (std::find(groups_.begin(), groups_.end(), group) == groups_.end()) groups_.push_back(group);
  }
  return groups_;
}

ServerMoment MomentNow(int64_t uptime_ns) {
  ServerMoment moment;
  moment.uptime_s = 1e-9 * static_cast<double>(uptime_ns);
  moment.dropped_log_lines = DroppedLogLines();
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    moment.cpu_user_s = Seconds(usage.ru_utime);
    moment.cpu_system_s = Seconds(usage.ru_stime);
  }
  return moment;
}

std::string StatText(const ServerFacts& facts, const ServerMoment& moment, const kv::TableStats& table,
                     const std::vector<const WorkerStats*>& workers, absl::string_view prefix, StatOrder* order) {
  Lines lines(prefix);
  AddFacts(facts, moment, lines);
  AddTable(table, lines);
  AddCounters(moment.counters, lines);
  AddWorkers(workers, moment, lines);
  if (facts.evict) AddCache(table, workers, lines);
  if (facts.client_figures) AddClients(workers, lines);
  AddLockTimes(workers, lines);
  lines.Add("dropped_log_lines", moment.dropped_log_lines);
  lines.Add("served_reads", moment.served_reads);
  lines.Add("served_read_bytes", moment.served_read_bytes);
  lines.Add("served_read_cpu_s", Seconds(moment.served_read_cpu_s));
  for (const size_t group : order->Add(PresentGroups(facts, table, workers))) {
    if (group < kKindGroups) {
      AddEvictions(table, group, lines);
    } else {
      AddRequestTimes(workers, group - kKindGroups, lines);
    }
  }
  return lines.Take();
}

}  // namespace farlook::server
