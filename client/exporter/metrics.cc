#include "client/exporter/metrics.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farlook::exporter {
namespace {

constexpr double kNs = 1e-9;
constexpr double kUs = 1e-6;
constexpr double kMs = 1e-3;

// A figure of the server, and its sample.
struct Sample {
  absl::string_view figure;
  absl::string_view metric;  // without farlook_
  absl::string_view labels;
  double scale = 1;
};
// Samples of one metric must be adjacent.
constexpr Sample kSamples[] = {
    {"uptime_s", "uptime_seconds", ""},
    {"restart_ms", "restart_seconds", "", kMs},
    {"restarted_keys", "restarted_keys", ""},
    {"cpu_user_s", "cpu_seconds_total", "mode=\"user\""},
    {"cpu_system_s", "cpu_seconds_total", "mode=\"system\""},
    {"dropped_log_lines", "dropped_log_lines_total", ""},
    {"draining", "draining", ""},
    {"group_replicas", "group_replicas", ""},
    {"group_members", "group_members", ""},
    {"group_min_insync", "group_min_insync", ""},
    {"group_removed_backups", "group_removed_backups_total", ""},
    {"group_waits_for_member", "group_waits_for_member", ""},
    {"group_directory_away", "group_directory_away", ""},
    {"group_lag_records", "group_lag_records", ""},
    {"group_lag_ms", "group_lag_seconds", "", kMs},
    {"cluster_groups", "cluster_groups", ""},
    {"cluster_moves", "cluster_moves", ""},
    {"cluster_slots", "cluster_slots", ""},
    {"served_reads", "served_reads_total", ""},
    {"served_read_bytes", "served_read_bytes_total", ""},
    {"served_read_cpu_s", "served_read_cpu_seconds_total", ""},
    {"workers", "workers", ""},
    {"page_bytes", "page_size_bytes", ""},
    {"max_clients", "max_clients", ""},
    {"max_value_bytes", "max_value_bytes", ""},
    {"keys", "keys", ""},
    {"key_bytes", "key_bytes", ""},
    {"value_bytes", "value_bytes", ""},
    {"region_bytes", "region_bytes", ""},
    {"overhead_bytes", "overhead_bytes", ""},
    {"free_bytes", "free_bytes", ""},
    {"used_bytes", "used_bytes", ""},
    {"reclaimable_bytes", "reclaimable_bytes", ""},
    {"reserve_bytes", "reserve_bytes", ""},
    {"largest_value_bytes", "largest_value_bytes", ""},
    {"largest_value_after_moving_bytes", "largest_value_after_moving_bytes", ""},
    {"small_block_bytes", "block_bytes", "kind=\"small\""},
    {"medium_block_bytes", "block_bytes", "kind=\"medium\""},
    {"large_block_bytes", "block_bytes", "kind=\"large\""},
    {"run_block_bytes", "block_bytes", "kind=\"run\""},
    {"small_used_bytes", "block_used_bytes", "kind=\"small\""},
    {"medium_used_bytes", "block_used_bytes", "kind=\"medium\""},
    {"large_used_bytes", "block_used_bytes", "kind=\"large\""},
    {"run_used_bytes", "block_used_bytes", "kind=\"run\""},
    {"index_bytes", "index_bytes", ""},
    {"segment_bytes", "index_segment_size_bytes", ""},
    {"segments", "index_segments", ""},
    {"splits", "index_splits_total", ""},
    {"merges", "index_merges_total", ""},
    {"segment_moves", "index_segment_moves_total", ""},
    {"level", "index_level", ""},
    {"overflow_keys", "index_overflow_keys", ""},
    {"expirations", "expirations_total", ""},
    {"expiry_bytes", "expiry_bytes", ""},
    {"moved_items", "moved_items_total", ""},
    {"puts", "puts_total", ""},
    {"deletes", "deletes_total", ""},
    {"connections", "connections", ""},
    {"sessions", "sessions", ""},
    {"kept_sessions", "kept_sessions", ""},
    {"kept_bytes", "kept_bytes", ""},
    {"message_bytes", "message_bytes", ""},
    {"paused_connections", "paused_connections", ""},
    {"accepted", "accepted_connections_total", ""},
    {"resumed", "resumed_sessions_total", ""},
    {"refused_resumptions", "refused_resumptions_total", ""},
    {"rejected", "refused_clients_total", "at=\"connect\""},
    {"refused", "refused_clients_total", "at=\"hello\""},
    {"dropped", "dropped_clients_total", ""},
    {"impatient_drops", "impatient_drops_total", ""},
    {"silent_drops", "silent_drops_total", ""},
    {"counters", "counters", ""},
    {"counter_cells", "cells", ""},
    {"counter_cells_free", "cells_free", ""},
    {"counter_cells_quarantined", "cells_quarantined", ""},
    {"counter_holders", "cell_holders", ""},
    {"clients_within_atomics", "clients_within_atomics", ""},
    {"resent_requests", "resent_requests_total", ""},
    {"held_writes", "held_writes_total", ""},
    {"waits_for_room", "waits_for_room_total", ""},
    {"waiting_for_room", "clients_waiting_for_room", ""},
    {"longest_room_wait_us", "longest_room_wait_seconds", "", kUs},
    {"room_steps", "room_steps_total", ""},
    {"postponed_replies", "postponed_replies_total", ""},
    {"slow_requests", "slow_requests_total", ""},
    {"lock_longest_ns", "longest_lock_hold_seconds", "", kNs},
    {"evict", "evicts", ""},
    {"small_evictions", "evictions_total", "kind=\"small\""},
    {"medium_evictions", "evictions_total", "kind=\"medium\""},
    {"large_evictions", "evictions_total", "kind=\"large\""},
    {"run_evictions", "evictions_total", "kind=\"run\""},
    {"small_eviction_age_ms", "eviction_age_seconds", "kind=\"small\"", kMs},
    {"medium_eviction_age_ms", "eviction_age_seconds", "kind=\"medium\"", kMs},
    {"large_eviction_age_ms", "eviction_age_seconds", "kind=\"large\"", kMs},
    {"run_eviction_age_ms", "eviction_age_seconds", "kind=\"run\"", kMs},
    {"ghost_hits", "ghost_hits_total", ""},
    {"eviction_bytes", "eviction_bytes", ""},
    {"reported_gets", "reported_gets_total", ""},
    {"reported_hits", "reported_hits_total", ""},
    {"touches", "touches_total", ""},
    {"ignored_touches", "ignored_touches_total", ""},
    {"touch_sample", "touch_sample", ""},
    {"client_figures", "wants_client_figures", ""},
    {"client_gets", "client_gets_total", ""},
    {"client_hits", "client_hits_total", ""},
    {"client_gets_per_s", "client_gets_per_second", ""},
    {"reporting_clients", "reporting_clients", ""},
    {"clipped_figures", "clipped_figures_total", ""},
    {"get_p50_ns", "client_get_latency_seconds", "share=\"0.5\"", kNs},
    {"get_p99_ns", "client_get_latency_seconds", "share=\"0.99\"", kNs},
    {"get_p999_ns", "client_get_latency_seconds", "share=\"0.999\"", kNs},
    {"pulls", "pulls_total", ""},
    {"pulled_bytes", "pulled_bytes_total", ""},
    {"failed_pulls", "failed_pulls_total", ""},
    {"cut_pulls", "cut_pulls_total", ""},
};

// Figures that are labels of farlook_build_info, or whose information a histogram contains.
constexpr absl::string_view kNoMetrics[] = {
    "version",    "incarnation", "addresses",   "huge_pages",   "numa_node",        "partitions",  "window",
    "lock_holds", "lock_p50_ns", "lock_p99_ns", "lock_p999_ns", "lock_hold_sum_ns", "restart_kind"};

// Metrics whose figures contain a label in their name: requests_put.
struct Family {
  absl::string_view prefix;
  absl::string_view metric;
  absl::string_view label;
};
constexpr Family kFamilies[] = {{"requests_", "requests_total", "type"}, {"replies_", "replies_total", "code"}};

constexpr absl::string_view kBelow = "_below_";
constexpr absl::string_view kHandling = "handling_";

const std::map<absl::string_view, absl::string_view>& Helps() {
  static const auto* const helps = new std::map<absl::string_view, absl::string_view>{
      {"uptime_seconds", "Since the server was started: a restart begins empty, unless there are restarted keys."},
      {"restart_seconds", "Time that it took to continue the table of a former server."},
      {"restarted_keys", "Keys of a former server that were there after the start (--memory_file)."},
      {"cpu_seconds_total", "Processor time of the server. Clients' reads take none."},
      {"dropped_log_lines_total", "Log lines that were dropped because the log was not read."},
      {"served_reads_total", "READs of clients that the server answered itself, as over tcp."},
      {"served_read_bytes_total", "Bytes that these READs fetched."},
      {"served_read_cpu_seconds_total", "Processor time of the threads that answer them."},
      {"group_replicas", "Members that its group should have."},
      {"group_members", "Members that its group has."},
      {"group_min_insync", "With fewer members than this no write is acknowledged."},
      {"group_removed_backups_total", "Backups that this server, as primary, removed: gone, or not accepting."},
      {"group_waits_for_member", "1: reads and writes wait for a silent member, which is needed for --min_insync."},
      {"group_directory_away", "1: the directory of its group does not answer, or has lost the group's record."},
      {"group_lag_records", "Records that the backup that lacks most has yet to accept."},
      {"group_lag_seconds", "For how long a backup has not accepted what there was when it last had everything."},
      {"cluster_groups", "Groups of its group's cluster."},
      {"cluster_moves", "Moves of slots from its group, or to it, that are under way."},
      {"cluster_slots", "Slots of the cluster that are its group's, of 4,096."},
      {"draining", "1: it was asked to end, and lets its clients finish."},
      {"workers", "Threads that apply writes."},
      {"page_size_bytes", "Pages that the region is mapped in."},
      {"max_clients", "Connections that the server admits at once."},
      {"max_value_bytes", "Longest value that the server takes."},
      {"keys", "Keys that are present."},
      {"key_bytes", "Length of the keys that are present, together."},
      {"value_bytes", "Length of the values that are present, together."},
      {"region_bytes", "Memory for keys, values and index."},
      {"overhead_bytes", "Header, directory and page map of the region."},
      {"free_bytes", "Memory of the region that nothing uses."},
      {"used_bytes", "Memory of the region that items use."},
      {"reclaimable_bytes", "Holes between items, which moving them makes free."},
      {"reserve_bytes", "Free memory that new keys do not get: overwrites and moving do."},
      {"largest_value_bytes", "Longest value of a new key that fits at once."},
      {"largest_value_after_moving_bytes", "Length of a value of a new key that fits after moving, if not before."},
      {"block_bytes", "Memory of blocks for items, by their size."},
      {"block_used_bytes", "What of it items use."},
      {"index_bytes", "Memory of the index."},
      {"index_segment_size_bytes", "Length of a segment of the index."},
      {"index_segments", "Segments of the index."},
      {"index_splits_total", "Segments that were split."},
      {"index_merges_total", "Pairs of segments that were merged."},
      {"index_segment_moves_total", "Segments that were moved."},
      {"index_level", "Binary logarithm of the directory's entries."},
      {"index_overflow_keys", "Keys in overflow buckets, which take one more READ."},
      {"expirations_total", "Items that were removed since they had expired."},
      {"expiry_bytes", "Memory outside the region that knows where items expire."},
      {"moved_items_total", "Items that were moved so that memory comes free."},
      {"puts_total", "Puts that took effect."},
      {"deletes_total", "Deletes that took effect."},
      {"connections", "Connections at present."},
      {"sessions", "Sessions at present, with and without a connection."},
      {"kept_bytes", "Replies that clients do not take, and writes that wait."},
      {"message_bytes", "Registered memory for messages."},
      {"paused_connections", "Connections that are not read from until their client takes its replies."},
      {"kept_sessions", "Sessions without a connection, kept to be resumed."},
      {"accepted_connections_total", "Connections that were accepted."},
      {"resumed_sessions_total", "Connections that went on with a session."},
      {"refused_resumptions_total", "Sessions that could not be resumed."},
      {"refused_clients_total", "Clients that were turned away, at their connection or at their first message."},
      {"dropped_clients_total", "Connections that the server ended since the client broke the protocol."},
      {"impatient_drops_total", "Connections that did not acknowledge deleted counters in time."},
      {"silent_drops_total", "Connections that sent no hello, or did not authenticate, in time."},
      {"counters", "Counters that are present."},
      {"cells", "Counters that there is memory for."},
      {"cells_free", "Counters that can still be made."},
      {"cells_quarantined", "Cells of deleted counters, not to be used yet."},
      {"cell_holders", "Connections that may know cells."},
      {"clients_within_atomics", "Clients that are gone while their process is stopped within an atomic."},
      {"resent_requests_total", "Requests that were answered from memory or under way already."},
      {"held_writes_total", "Writes that waited for an earlier one to their key."},
      {"waits_for_room_total", "Writes for which room had to be made in steps."},
      {"clients_waiting_for_room", "Clients with such writes at present."},
      {"longest_room_wait_seconds", "Longest that such a write waited, since the start."},
      {"room_steps_total", "Steps that were made for them."},
      {"postponed_replies_total", "Replies that found a client's queue full."},
      {"longest_lock_hold_seconds", "Longest that a partition's lock was held, since the start."},
      {"evicts", "1: the server is a cache."},
      {"evictions_total", "Items that a cache evicted, by the kind of block."},
      {"eviction_age_seconds", "How long the last of them had not been used, about."},
      {"ghost_hits_total", "Refills of keys that had been evicted soon after they came."},
      {"eviction_bytes", "Memory of the process in which a cache chooses what to evict."},
      {"reported_gets_total", "Gets that clients of a cache reported."},
      {"reported_hits_total", "Those that found their key."},
      {"touches_total", "Reported locations of hits, of items that may be evicted."},
      {"ignored_touches_total",
       "Those that led to nothing which may be evicted, or were more than there was time for."},
      {"touch_sample", "N: clients report one hit in N; 0: none."},
      {"wants_client_figures", "1: the server asks clients to report their gets (--client_figures)."},
      {"client_gets_total", "Gets that clients reported, which the server does not see."},
      {"client_hits_total", "Those that found their key."},
      {"client_gets_per_second", "Gets of connected clients, from the last report of each."},
      {"reporting_clients", "Clients that reported their gets in the last 35 s."},
      {"clipped_figures_total", "Messages of clients that claim more than a client can do."},
      {"client_get_latency_seconds", "The share of these clients' gets that took no longer."},
      {"pulls_total", "Long values that the server began to READ from clients."},
      {"pulled_bytes_total", "Length of those that arrived whole."},
      {"failed_pulls_total", "Those whose READ failed, or whose hash did not fit."},
      {"cut_pulls_total", "Those that a disconnect cut off."},
      {"slow_requests_total", "Requests that took --slow_ms."},
      {"requests_total", "Requests that arrived, by type. Reads by READ are none."},
      {"replies_total", "Replies, by code."},
      {"other_figures", "Figures that this exporter has no metric for: use one of the server's release."},
  };
  return *helps;
}

// Formats metrics, one after the other, each with its head.
class Page {
 public:
  void Add(absl::string_view metric, absl::string_view labels, double value) {
    if (metric != last_) {
      const bool counter = absl::EndsWith(metric, "_total");
      absl::StrAppend(&text_, "# HELP farlook_", metric, " ", Helps().at(metric), "\n# TYPE farlook_", metric,
                      counter ? " counter\n" : " gauge\n");
      last_ = metric;
    }
    absl::StrAppend(&text_, "farlook_", metric, labels.empty() ? "" : absl::StrCat("{", labels, "}"), " ",
                    absl::StrFormat("%.15g", value), "\n");
  }
  std::string text_;

 private:
  absl::string_view last_;
};

using Figures = std::map<absl::string_view, absl::string_view>;

void AddBuildInfo(const Figures& figures, std::string* text) {
  std::string labels;
  for (const absl::string_view name : {"version", "incarnation", "huge_pages", "numa_node"}) {
    if (const auto found = figures.find(name); found != figures.end()) {
      absl::StrAppend(&labels, labels.empty() ? "" : ",", name, "=", QuotedLabel(found->second));
    }
  }
  absl::StrAppend(text, "# HELP farlook_build_info Of the server, and of this run of it.\n",
                  "# TYPE farlook_build_info gauge\nfarlook_build_info{", labels, "} 1\n");
}

// Adds one histogram of a metric. `name`_below_N_ns: the number of shorter durations; `count_name` and `sum_name` are
// names of figures.
void AddHistogram(const Figures& figures, absl::string_view name, absl::string_view count_name,
                  absl::string_view sum_name, absl::string_view metric, absl::string_view labels, std::string* text) {
  const auto count = figures.find(count_name);
  const auto sum = figures.find(sum_name);
  double sum_ns;
  if (count == figures.end() || sum == figures.end() || !absl::SimpleAtod(sum->second, &sum_ns)) return;
  const std::string prefix = absl::StrCat(name, kBelow);
  std::map<double, absl::string_view> below;
  for (auto it = figures.lower_bound(prefix); it != figures.end() && absl::StartsWith(it->first, prefix); ++it) {
    absl::string_view bound = it->first.substr(prefix.size());
    double ns;
    if (absl::ConsumeSuffix(&bound, "_ns") && absl::SimpleAtod(bound, &ns)) below[ns * kNs] = it->second;
  }
  const absl::string_view comma = labels.empty() ? "" : ",";
  for (const auto& [seconds, value] : below) {
    absl::StrAppend(text, "farlook_", metric, "_bucket{", labels, comma, "le=\"", seconds, "\"} ", value, "\n");
  }
  const std::string braces = labels.empty() ? "" : absl::StrCat("{", labels, "}");
  absl::StrAppend(text, "farlook_", metric, "_bucket{", labels, comma, "le=\"+Inf\"} ", count->second, "\nfarlook_",
                  metric, "_sum", braces, " ", sum_ns * kNs, "\nfarlook_", metric, "_count", braces, " ", count->second,
                  "\n");
}

void AddLockHolds(const Figures& figures, std::string* text) {
  if (figures.find("lock_holds") == figures.end() || figures.find("lock_hold_sum_ns") == figures.end()) return;
  absl::StrAppend(text,
                  "# HELP farlook_lock_hold_seconds How long partitions' locks were held; the sum is to an eighth.\n"
                  "# TYPE farlook_lock_hold_seconds histogram\n");
  AddHistogram(figures, "lock_holds", "lock_holds", "lock_hold_sum_ns", "lock_hold_seconds", "", text);
}

// Adds a histogram for each type with requests.
void AddHandling(const Figures& figures, std::string* text) {
  bool first = true;
  for (auto it = figures.lower_bound(kHandling); it != figures.end() && absl::StartsWith(it->first, kHandling); ++it) {
    absl::string_view name = it->first;
    if (!absl::ConsumeSuffix(&name, "_timed")) continue;
    if (std::exchange(first, false)) {
      absl::StrAppend(text,
                      "# HELP farlook_request_handling_seconds How long requests took in the server, to their answer: "
                      "one in 64; the sum is to an eighth.\n# TYPE farlook_request_handling_seconds histogram\n");
    }
    const std::string type = QuotedLabel(absl::StripPrefix(name, kHandling));
    AddHistogram(figures, name, it->first, absl::StrCat(name, "_sum_ns"), "request_handling_seconds",
                 absl::StrCat("type=", type), text);
  }
}

}  // namespace

std::string QuotedLabel(absl::string_view value) {
  return absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

std::string ToMetrics(absl::string_view stats) {
  Figures figures;
  for (const absl::string_view line : absl::StrSplit(stats, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> figure = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    figures.insert(figure);
  }
  Page page;
  AddBuildInfo(figures, &page.text_);
  double value;
  for (const Sample& sample : kSamples) {
    const auto found = figures.find(sample.figure);
    if (found != figures.end() && absl::SimpleAtod(found->second, &value)) {
      page.Add(sample.metric, sample.labels, value * sample.scale);
    }
  }
  for (const Family& family : kFamilies) {
    for (auto it = figures.lower_bound(family.prefix);
         it != figures.end() && absl::StartsWith(it->first, family.prefix); ++it) {
      if (!absl::SimpleAtod(it->second, &value)) continue;
      page.Add(family.metric, absl::StrCat(family.label, "=", QuotedLabel(absl::StripPrefix(it->first, family.prefix))),
               value);
    }
  }
  AddHandling(figures, &page.text_);
  AddLockHolds(figures, &page.text_);
  for (const auto& [name, text] : figures) {
    if (!IsKnownFigure(name) && absl::SimpleAtod(text, &value)) {
      page.Add("other_figures", absl::StrCat("name=", QuotedLabel(name)), value);
    }
  }
  return std::move(page.text_);
}

bool IsKnownFigure(absl::string_view name) {
  if (std::find(std::begin(kNoMetrics), std::end(kNoMetrics), name) != std::end(kNoMetrics)) return true;
  if (absl::StartsWith(name, "lock_holds_below_") || absl::StartsWith(name, kHandling)) return true;
  if (std::any_of(std::begin(kFamilies), std::end(kFamilies),
                  [name](const Family& family) { return absl::StartsWith(name, family.prefix); })) {
    return true;
  }
  return std::any_of(std::begin(kSamples), std::end(kSamples),
                     [name](const Sample& sample) { return sample.figure == name; });
}

}  // namespace farlook::exporter
