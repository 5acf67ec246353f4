// The speed of one client on one thread.
#ifndef FARLOOK_BENCH_MICRO_CLIENT_SPEED_H_
#define FARLOOK_BENCH_MICRO_CLIENT_SPEED_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "farlook/client.h"

namespace farlook::bench {

// Records [first, first + count) under YCSB's hashed keys, all with values of one length.
struct KeyRange {
  int64_t first = 0;
  int64_t count = 1;
  size_t value_bytes = 100;
};

// Puts all of the range, `in_flight` at once. Returns puts per second, or the error of the first put that failed.
absl::StatusOr<double> PutAll(Client* client, const KeyRange& range, size_t in_flight);

struct Percentiles {
  double p50_ns = 0;
  double p99_ns = 0;
};

// Times `operations` calls on uniformly random keys of the range, one after the other; the time for reading the clock
// is subtracted. Keys are made before the clock is read. INTERNAL if a value is missing or has another length.
absl::StatusOr<Percentiles> TimeGets(Client* client, const KeyRange& range, int64_t operations);
absl::StatusOr<Percentiles> TimePuts(Client* client, const KeyRange& range, int64_t operations);

// The same for FetchAdds of 1 to counters made by CreateAll().
absl::StatusOr<Percentiles> TimeAdds(Client* client, const KeyRange& range, int64_t operations);

// Creates counters with these keys (value_bytes is ignored) and uses each once, so that this client knows its cell.
absl::Status CreateAll(Client* client, const KeyRange& range);

// The same for MultiGets of `batch` keys; the result is for one key.
absl::StatusOr<Percentiles> TimeMultiGets(Client* client, const KeyRange& range, size_t batch, int64_t operations);

// The median difference of two consecutive readings of the clock, in nanoseconds.
double ClockNs();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_CLIENT_SPEED_H_
