// How fast one client on one thread is.
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

// Puts all of the range, `in_flight` at once. Returns puts per second. An error is the first put's that failed.
absl::StatusOr<double> PutAll(Client* client, const KeyRange& range, size_t in_flight);

struct Percentiles {
  double p50_ns = 0;
  double p99_ns = 0;
};

// Times `operations` calls on uniformly random keys of the range, one after the other; the time that reading the clock
// takes is subtracted. Keys are made before the clock is read. INTERNAL when a value is not there or not as long.
absl::StatusOr<Percentiles> TimeGets(Client* client, const KeyRange& range, int64_t operations);
absl::StatusOr<Percentiles> TimePuts(Client* client, const KeyRange& range, int64_t operations);

// The same of FetchAdds of 1 to counters, which CreateAll() made.
absl::StatusOr<Percentiles> TimeAdds(Client* client, const KeyRange& range, int64_t operations);

// Creates counters of these keys (value_bytes does not matter) and uses each once, so that this client knows its cell.
absl::Status CreateAll(Client* client, const KeyRange& range);

// The same of MultiGets of `batch` keys; for each key.
absl::StatusOr<Percentiles> TimeMultiGets(Client* client, const KeyRange& range, size_t batch, int64_t operations);

// What two readings of the clock, one after the other, differ by: the median, in nanoseconds.
double ClockNs();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_CLIENT_SPEED_H_
