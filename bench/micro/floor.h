// Floors: the time that the machine itself needs for the steps of Farlook's operations.
//
// A figure of Farlook is hard to judge without them. Each floor is measured in the same run, over memory as large as
// the store's, with the same page size (bench/micro/floor_memory.h), and printed beside the figure. Each is the median
// of about a hundred batches, so that occasional preemption does not count.
#ifndef FARLOOK_BENCH_MICRO_FLOOR_H_
#define FARLOOK_BENCH_MICRO_FLOOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "bench/micro/floor_memory.h"

namespace farlook::bench {

// D: nanoseconds of one load from a random 64-byte line, whose address depends on the result of the previous load. The
// address is computed from a linear congruential generator plus the loaded word, some 2 ns of the figure. One thread.
double DependentLoadNs(const FloorMemory& memory, int64_t loads, uint64_t seed = 1);

// Nanoseconds of copying `bytes` from a random line to a buffer in the cache, each copy begun when the previous one has
// arrived. So this includes the first miss, as a READ of an item does. REQUIRES: 0 < bytes <= memory.size().
double ColdCopyNs(const FloorMemory& memory, size_t bytes, int64_t copies, uint64_t seed = 1);

// Nanoseconds for each lookup of a batch that only loads a word of each line that a real one needs. These are two lines
// of a bucket, and those of an item of `item_bytes` at an address that depends on the bucket's words. All buckets of a
// batch are prefetched before the first is used, and so are all items. REQUIRES: batch > 0, 8 <= item_bytes, and
// item_bytes + 64 <= memory.size().
double LookupLinesNs(const FloorMemory& memory, size_t batch, size_t item_bytes, int64_t lookups, uint64_t seed = 1);

// Nanoseconds of one uncontended lock-prefixed add to a random line, each at an address that depends on the previous
// one.
double ColdLockedAddNs(const FloorMemory& memory, int64_t adds, uint64_t seed = 1);

// Nanoseconds for a cache line to travel from the core of CPU `a` to that of `b` and back: each writes the value that
// the other waits for. CPU `b` runs another process, with the line in shared memory.
//
// FAILED_PRECONDITION if this process may not run on both, or they are the same; DEADLINE_EXCEEDED if the peer did not
// answer for a second (it got no CPU). The calling thread's affinity is restored.
absl::StatusOr<double> CacheLineRoundTripNs(int a, int b, int64_t round_trips);

// The first two CPUs that this process may run on. FAILED_PRECONDITION if there is only one.
struct CpuPair {
  int a;
  int b;
};
absl::StatusOr<CpuPair> FirstTwoCpus();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_FLOOR_H_
