#include "bench/micro/client_speed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"
#include "bench/common/key_name.h"
#include "bench/common/random.h"
#include "farlook/async.h"

namespace farlook::bench {
namespace {

// The driver's own part of a timed operation: the key, chosen before.
class RandomKeys {
 public:
  explicit RandomKeys(const KeyRange& range) : range_(range), random_(range.value_bytes + 1) {}

  void Next(std::string* key) {
    const int64_t number = range_.first + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(range_.count)));
    BuildKeyName(number, key);
  }

 private:
  const KeyRange range_;
  Random random_;
};

// Keeps each time exactly, since a histogram with an error of 1 part in 128 is useless for the difference of two nearly
// equal figures.
class Times {
 public:
  explicit Times(int64_t count) { times_ns_.reserve(static_cast<size_t>(count)); }

  void Record(int64_t time_ns) { times_ns_.push_back(time_ns); }

  // REQUIRES: something was recorded.
  int64_t Percentile(double percent) {
    const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(times_ns_.size())));
    const auto at = times_ns_.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(times_ns_.begin(), at, times_ns_.end());
    return *at;
  }

 private:
  std::vector<int64_t> times_ns_;
};

// Percentiles of the time of one part, if each recorded time is of `parts`.
Percentiles Summarize(Times* times, double clock_ns, size_t parts) {
  const auto each = [&](double percent) {
    return std::max(0.0, static_cast<double>(times->Percentile(percent)) - clock_ns) / static_cast<double>(parts);
  };
  return {each(50), each(99)};
}

absl::Status Missing(const std::string& key, size_t expected, size_t got) {
  return absl::InternalError(absl::StrCat(key, " has ", got, " bytes, not ", expected));
}

}  // namespace

double ClockNs() {
  constexpr int kReadings = 100'000;
  Times times(kReadings);
  for (int i = 0; i < kReadings; ++i) {
    const int64_t start_ns = NowNs();
    times.Record(NowNs() - start_ns);
  }
  return static_cast<double>(times.Percentile(50));
}

absl::StatusOr<double> PutAll(Client* client, const KeyRange& range, size_t in_flight) {
  const std::unique_ptr<PutOperation[]> puts(new PutOperation[in_flight]);
  const std::string value(range.value_bytes, 'v');
  std::string key;
  std::vector<AsyncOperation*> free, to_start, ended(in_flight);
  for (size_t i = 0; i < in_flight; ++i) {
    puts[i].set_value(Borrowed{value});
    puts[i].set_options({.timeout_ms = 60'000});
    free.push_back(&puts[i]);
  }
  absl::Status error;
  int64_t next = 0;
  const int64_t start_ns = NowNs();
  while ((next < range.count && error.ok()) || free.size() < in_flight) {
    to_start.clear();
    while (!free.empty() && next < range.count && error.ok()) {
      to_start.push_back(free.back());
      free.pop_back();
      BuildKeyName(range.first + next++, &key);
      to_start.back()->set_key(key);
    }
    if (!to_start.empty()) client->Start(to_start);
    const size_t count = client->Poll(ended);
    for (size_t i = 0; i < count; ++i) {
      if (!ended[i]->status().ok() && error.ok()) error = ended[i]->status();
      free.push_back(ended[i]);
    }
  }
  if (!error.ok()) return error;
  return static_cast<double>(range.count) * 1e9 / static_cast<double>(NowNs() - start_ns);
}

absl::StatusOr<Percentiles> TimeGets(Client* client, const KeyRange& range, int64_t operations) {
  const double clock_ns = ClockNs();
  RandomKeys keys(range);
  Times times(operations);
  std::string key;
  std::vector<char> buffer(range.value_bytes + 1);
  for (int64_t i = 0; i < operations; ++i) {
    keys.Next(&key);
    const int64_t start_ns = NowNs();
    const absl::StatusOr<size_t> bytes = client->GetInto(key, buffer);
    times.Record(NowNs() - start_ns);
    if (!bytes.ok()) return bytes.status();
    if (*bytes != range.value_bytes) return Missing(key, range.value_bytes, *bytes);
  }
  return Summarize(&times, clock_ns, 1);
}

absl::StatusOr<Percentiles> TimePuts(Client* client, const KeyRange& range, int64_t operations) {
  const double clock_ns = ClockNs();
  RandomKeys keys(range);
  Times times(operations);
  std::string key;
  const std::string value(range.value_bytes, 'w');
  for (int64_t i = 0; i < operations; ++i) {
    keys.Next(&key);
    const int64_t start_ns = NowNs();
    const absl::StatusOr<uint64_t> version = client->Put(key, value);
    times.Record(NowNs() - start_ns);
    if (!version.ok()) return version.status();
  }
  return Summarize(&times, clock_ns, 1);
}

absl::Status CreateAll(Client* client, const KeyRange& range) {
  constexpr int64_t kBatch = 128;
  const CounterOptions options = {.timeout_ms = 60'000};
  std::vector<std::string> names;
  for (int64_t i = 0; i < range.count; ++i) {
    BuildKeyName(range.first + i, &names.emplace_back());
    if (absl::Status status = client->CreateCounter(names.back(), 0, options); !status.ok()) return status;
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const std::vector<int64_t> deltas(keys.size());
  std::vector<Result<int64_t>> results;
  for (size_t first = 0; first < keys.size(); first += kBatch) {
    const size_t count = std::min<size_t>(kBatch, keys.size() - first);
    absl::Status status = client->MultiFetchAdd(std::span(keys).subspan(first, count),
                                                std::span(deltas).subspan(first, count), &results, options);
    if (!status.ok()) return status;
    for (const Result<int64_t>& result : results) {
      if (!result.status.ok()) return result.status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Percentiles> TimeAdds(Client* client, const KeyRange& range, int64_t operations) {
  const double clock_ns = ClockNs();
  RandomKeys keys(range);
  Times times(operations);
  std::string key;
  for (int64_t i = 0; i < operations; ++i) {
    keys.Next(&key);
    const int64_t start_ns = NowNs();
    const absl::StatusOr<int64_t> before = client->FetchAdd(key, 1);
    times.Record(NowNs() - start_ns);
    if (!before.ok()) return before.status();
  }
  return Summarize(&times, clock_ns, 1);
}

absl::StatusOr<Percentiles> TimeMultiGets(Client* client, const KeyRange& range, size_t batch, int64_t operations) {
  const double clock_ns = ClockNs();
  RandomKeys random(range);
  Times times(operations);
  std::vector<std::string> names(batch);
  std::vector<std::string_view> keys(batch);
  std::vector<Result<Value>> results;
  for (int64_t i = 0; i < operations; ++i) {
    for (size_t k = 0; k < batch; ++k) {
      random.Next(&names[k]);
      keys[k] = names[k];
    }
    const int64_t start_ns = NowNs();
    const absl::Status status = client->MultiGet(keys, &results);
    times.Record(NowNs() - start_ns);
    if (!status.ok()) return status;
    for (size_t k = 0; k < batch; ++k) {
      const size_t bytes = results[k].value.data.size();
      if (!results[k].status.ok() || bytes != range.value_bytes) return Missing(names[k], range.value_bytes, bytes);
    }
  }
  return Summarize(&times, clock_ns, batch);
}

}  // namespace farlook::bench
