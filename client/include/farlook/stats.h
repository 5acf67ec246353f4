// Statistics that a client keeps about itself.
#ifndef FARLOOK_STATS_H_
#define FARLOOK_STATS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace farlook {

// Durations of operations. One operation in up to 64 is timed, and counts for all of these; a batch is one operation.
struct LatencyHistogram {
  // Bucket 0: less than 64 ns. Then four buckets for each doubling: 64, 80, 96, 112, 128, 160, ... to 17 s and more.
  static constexpr size_t kBuckets = 113;

  std::array<uint64_t, kBuckets> counts = {};
  uint64_t sum_ns = 0;  // of all

  uint64_t count() const;
  // Returns a duration that at most the share 1 - `share` of operations exceeded: QuantileNs(0.99). It is at most a
  // quarter too high; 0: nothing was timed.
  uint64_t QuantileNs(double share) const;
};

// Events since Connect. Each figure only grows.
struct ClientStats {
  // Gets: Get, GetInto, Exists, each key of MultiGet, and their asynchronous operations.
  uint64_t gets = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;  // NOT_FOUND

  // Ways of gets.
  uint64_t bucket_reads = 0;         // READs of buckets of the index
  uint64_t item_reads = 0;           // READs of items
  uint64_t read_retries = 0;         // rounds that had to start again: torn, dead, changed
  uint64_t cached_hits = 0;          // gets answered at a remembered location
  uint64_t stale_locations = 0;      // remembered locations that no longer held the key
  uint64_t directory_refreshes = 0;  // READs of the index's directory, since it had grown
  uint64_t warming_reads = 0;        // READs of Client::Warm
  uint64_t server_gets = 0;  // gets that asked the server: because READs did not suffice, or for Lookups::kMessages

  // Writes.
  uint64_t puts = 0;           // writes of all kinds that were sent
  uint64_t pulled_values = 0;  // values too long for a message, which the server pulled

  // Errors and reconnects.
  uint64_t reconnects = 0;
  uint64_t resent_requests = 0;      // after a reconnect
  uint64_t timeouts = 0;             // operations that ended with DEADLINE_EXCEEDED
  uint64_t incarnation_changes = 0;  // reconnects to a table that began empty

  // Counters.
  uint64_t atomics = 0;           // posted on cells of counters, and READs of cells
  uint64_t counter_requests = 0;  // replies of the server about counters
  uint64_t dead_cells = 0;        // atomics that found their counter deleted
  uint64_t unknown_atomics = 0;   // operations that ended with UNKNOWN because a connection broke during their atomic

  // From the call, or the start, to the end.
  LatencyHistogram get_times;      // of operations in `gets`
  LatencyHistogram write_times;    // of operations in `puts`
  LatencyHistogram counter_times;  // of operations on counters
};

// Returns the same in Prometheus' text format, for a program that is scraped: farlook_client_gets_total and so on.
// `labels` are added to each sample, in Prometheus' notation: "table=\"users\"".
std::string PrometheusText(const ClientStats& stats, std::string_view labels = {});

}  // namespace farlook

#endif  // FARLOOK_STATS_H_
