// Choice of the record that the next operation uses: the request distributions of YCSB's workloads.
#ifndef FARLOOK_BENCH_YCSB_KEY_CHOOSER_H_
#define FARLOOK_BENCH_YCSB_KEY_CHOOSER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/common/random.h"
#include "bench/ycsb/acknowledged_counter.h"

namespace farlook::bench {

enum class Distribution : uint8_t { kUniform, kZipfian, kLatest };

// The distribution with this YCSB name, or an error that lists the names.
absl::StatusOr<Distribution> ParseDistribution(absl::string_view name);
absl::string_view DistributionName(Distribution distribution);

// Parameters of the distributions.
struct KeySpace {
  int64_t first = 0;              // insertstart
  int64_t count = 1;              // insertcount: records [first, first + count) were loaded
  int64_t record_count = 1;       // recordcount
  int64_t expected_new_keys = 0;  // operationcount * insertproportion * 2, YCSB's estimate
};

// Thread safety: belongs to one thread; Clone() for another.
class KeyChooser {
 public:
  virtual ~KeyChooser() = default;

  // The number of a record; never above inserted.last(), never negative.
  virtual int64_t Next(Random* random) = 0;

  // A copy for another thread, without repeating expensive computations.
  virtual std::unique_ptr<KeyChooser> Clone() const = 0;
};

// Draws of `distribution` over `space`, limited to records that `inserted` reports as present. `inserted` must outlive
// the choosers and all their clones. For kZipfian, draws beyond inserted->last() are repeated, so that the popular keys
// stay the same while the table grows. For kLatest, zeta over record_count items is computed here.
//
// REQUIRES: space.count >= 1, and inserted.last() >= space.first.
std::unique_ptr<KeyChooser> NewKeyChooser(Distribution distribution, const KeySpace& space,
                                          const AcknowledgedCounter* inserted);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_KEY_CHOOSER_H_
