#include "farlook/stats.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kv/wire/duration_buckets.h"

namespace farlook {
namespace {

using kv::DurationBuckets;
static_assert(LatencyHistogram::kBuckets == DurationBuckets::kBuckets, "stats.h says how many there are");

// Limits of Prometheus' buckets: each doubling between these.
constexpr uint64_t kFirstNs = 128, kLastNs = uint64_t{1} << 33;

DurationBuckets ToBuckets(const LatencyHistogram& histogram) {
  DurationBuckets buckets;
  for (size_t i = 0; i < histogram.counts.size(); ++i) buckets.Add(i, histogram.counts[i]);
  return buckets;
}

class Page {
 public:
  explicit Page(absl::string_view labels) : labels_(labels) {}

  void Counter(absl::string_view name, absl::string_view help, uint64_t value) {
    Head(name, help, "counter");
    absl::StrAppend(&text, "farlook_client_", name, Labels(""), " ", value, "\n");
  }
  void Histogram(absl::string_view name, absl::string_view help, const LatencyHistogram& histogram) {
    Head(name, help, "histogram");
    const DurationBuckets buckets = ToBuckets(histogram);
    const auto bucket = [&](absl::string_view le, uint64_t count) {
      absl::StrAppend(&text, "farlook_client_", name, "_bucket", Labels(absl::StrCat("le=\"", le, "\"")), " ", count,
                      "\n");
    };
    for (uint64_t ns = kFirstNs; ns <= kLastNs; ns *= 2) {
      bucket(absl::StrCat(1e-9 * static_cast<double>(ns)), buckets.Below(ns));
    }
    bucket("+Inf", buckets.count());
    absl::StrAppend(&text, "farlook_client_", name, "_sum", Labels(""), " ",
                    1e-9 * static_cast<double>(histogram.sum_ns), "\nfarlook_client_", name, "_count", Labels(""), " ",
                    buckets.count(), "\n");
  }

  std::string text;

 private:
  void Head(absl::string_view name, absl::string_view help, absl::string_view type) {
    absl::StrAppend(&text, "# HELP farlook_client_", name, " ", help, "\n# TYPE farlook_client_", name, " ", type,
                    "\n");
  }
  std::string Labels(absl::string_view own) const {
    if (own.empty() && labels_.empty()) return "";
    return absl::StrCat("{", labels_, own.empty() || labels_.empty() ? "" : ",", own, "}");
  }

  const absl::string_view labels_;
};

}  // namespace

uint64_t LatencyHistogram::count() const { return ToBuckets(*this).count(); }
uint64_t LatencyHistogram::QuantileNs(double share) const { return ToBuckets(*this).Quantile(share); }

std::string PrometheusText(const ClientStats& stats, std::string_view labels) {
  Page page(absl::string_view(labels.data(), labels.size()));
  page.Counter("gets_total", "Gets, each key of a batch.", stats.gets);
  page.Counter("hits_total", "Gets that found their key.", stats.hits);
  page.Counter("misses_total", "Gets whose key is absent.", stats.misses);
  page.Counter("bucket_reads_total", "READs of buckets of the index.", stats.bucket_reads);
  page.Counter("item_reads_total", "READs of items.", stats.item_reads);
  page.Counter("read_retries_total", "Rounds of gets that had to begin again.", stats.read_retries);
  page.Counter("cached_hits_total", "Gets that were answered at the location remembered.", stats.cached_hits);
  page.Counter("stale_locations_total", "Remembered locations that no longer held the key.", stats.stale_locations);
  page.Counter("directory_refreshes_total", "READs of the directory of the index.", stats.directory_refreshes);
  page.Counter("warming_reads_total", "READs of Warm.", stats.warming_reads);
  page.Counter("server_gets_total", "Gets that asked the server.", stats.server_gets);
  page.Counter("writes_total", "Writes of all kinds that were sent.", stats.puts);
  page.Counter("pulled_values_total", "Writes whose value the server pulled.", stats.pulled_values);
  page.Counter("reconnects_total", "Connections after the first.", stats.reconnects);
  page.Counter("resent_requests_total", "Requests that were sent again.", stats.resent_requests);
  page.Counter("timeouts_total", "Operations that were not done in time.", stats.timeouts);
  page.Counter("incarnation_changes_total", "Reconnects that found an empty table.", stats.incarnation_changes);
  page.Counter("atomics_total", "Atomics and READs on cells of counters.", stats.atomics);
  page.Counter("counters_requests_total", "Answers of the server about counters.", stats.counter_requests);
  page.Counter("dead_cells_total", "Atomics that found their counter deleted.", stats.dead_cells);
  page.Counter("unknown_atomics_total", "Operations on counters with an unknown outcome.", stats.unknown_atomics);
  page.Histogram("get_duration_seconds", "How long gets took, a sample.", stats.get_times);
  page.Histogram("write_duration_seconds", "How long writes took, a sample.", stats.write_times);
  page.Histogram("counters_duration_seconds", "How long operations on counters took, a sample.", stats.counter_times);
  return page.text;
}

}  // namespace farlook
