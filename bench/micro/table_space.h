// The share of a region's memory that holds keys and values, and the share of the index.
//
// Measured on kv/'s table in plain memory: the server adds nothing to it.
#ifndef FARLOOK_BENCH_MICRO_TABLE_SPACE_H_
#define FARLOOK_BENCH_MICRO_TABLE_SPACE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kv/table/room_probe.h"

namespace farlook::bench {

// Averages and extremes over 200 sizes at equal distances.
struct IndexCost {
  double average_bytes_per_key = 0;
  double worst_bytes_per_key = 0;        // from a million keys on: below, a page of 2 MiB more or less decides
  double worst_bytes_per_key_small = 0;  // below a million
  // Lookups of present keys, averaged at each of those sizes.
  double worst_bucket_reads = 0;
  double worst_reads_load = 0;  // keys per slot of all segments, at that size
  double highest_load = 0;
};

// Grows a table from empty to `keys` keys with values of 8 bytes, a million of them per second of the table's time. The
// rate matters, since a segment that was split takes memory until its quarantine ends. RESOURCE_EXHAUSTED if they do
// not fit in `region_bytes`.
absl::StatusOr<IndexCost> MeasureIndex(size_t region_bytes, int64_t keys);

struct FillCost {
  double fresh = 0;   // share of keys and values in the region, when full of values of 1,000 bytes
  double reused = 0;  // the same after it was full of values of 100 bytes that were then all deleted
};

absl::StatusOr<FillCost> MeasureFill(size_t region_bytes);

// kv::MeasureRoom in a region of a server with this number of workers.
absl::StatusOr<kv::RoomFigures> MeasureRoomOf(size_t region_bytes, int workers, kv::Mix mix);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_TABLE_SPACE_H_
