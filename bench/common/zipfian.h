// Zipf-distributed numbers as the Java YCSB draws them.
//
// The method is that of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994). Its
// constants are computed exactly as in YCSB 0.17, with its quirks, so that equal random numbers give equal keys:
//   * when the number of items grows, zeta is extended by the new terms, but eta still uses the first number of items;
//   * when it shrinks, nothing is recomputed.
//
// Thread safety: each object belongs to one thread; copy one for each (the first computation of zeta is the expensive
// part).
#ifndef FARLOOK_BENCH_COMMON_ZIPFIAN_H_
#define FARLOOK_BENCH_COMMON_ZIPFIAN_H_

#include <cstdint>

#include "bench/common/random.h"

namespace farlook::bench {

inline constexpr double kZipfianConstant = 0.99;

class ZipfianGenerator {
 public:
  // Numbers in [min, max], the smallest the most frequent. Computes zeta over all of them: some 30 ns for each.
  // REQUIRES: min <= max, 0 < theta < 1.
  ZipfianGenerator(int64_t min, int64_t max, double theta = kZipfianConstant);

  // The same with a known zeta over max - min + 1 items.
  ZipfianGenerator(int64_t min, int64_t max, double theta, double zetan);

  int64_t Next(Random* random) { return Draw(random->NextDouble()); }

  // Draws as if there were `items` numbers from now on. REQUIRES: items > 0.
  int64_t Next(Random* random, int64_t items) {
    if (items > items_for_zeta_) Grow(items);
    return At(random->NextDouble(), items);
  }

  // The number that a uniform u in [0, 1) selects.
  int64_t Draw(double u) const { return At(u, items_); }

  double zetan() const { return zetan_; }
  double eta() const { return eta_; }

 private:
  void Grow(int64_t items);
  double Eta() const;
  int64_t At(double u, int64_t items) const;

  int64_t items_;
  int64_t base_;
  int64_t items_for_zeta_;
  double theta_;
  double alpha_;
  double zeta2_;
  double second_;  // below this (times zetan) the second number
  double zetan_;
  double eta_;
};

// Zipfian over 10^10 items, hashed into [min, max]: the frequent keys are scattered among all.
class ScrambledZipfianGenerator {
 public:
  // Both ends inclusive. REQUIRES: min <= max.
  ScrambledZipfianGenerator(int64_t min, int64_t max);

  int64_t Next(Random* random) { return Scatter(zipfian_.Next(random)); }
  int64_t Draw(double u) const { return Scatter(zipfian_.Draw(u)); }

 private:
  int64_t Scatter(int64_t rank) const;

  int64_t min_;
  int64_t items_;
  ZipfianGenerator zipfian_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_ZIPFIAN_H_
