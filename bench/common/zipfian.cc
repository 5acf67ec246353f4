#include "bench/common/zipfian.h"

#include <cmath>

#include "bench/common/key_name.h"

namespace farlook::bench {
namespace {

// YCSB's ScrambledZipfianGenerator: this many items, and zeta over them (computing it would take minutes).
constexpr int64_t kScrambledItems = 10'000'000'000;
constexpr double kScrambledZetan = 26.46902820178302;

// The sum of 1 / i^theta over i in (from, to], added to `sum` term by term: the order determines the last bits.
double Zeta(int64_t from, int64_t to, double theta, double sum) {
  for (int64_t i = from; i < to; ++i) sum += 1 / std::pow(static_cast<double>(i + 1), theta);
  return sum;
}

}  // namespace

ZipfianGenerator::ZipfianGenerator(int64_t min, int64_t max, double theta)
    : ZipfianGenerator(min, max, theta, Zeta(0, max - min + 1, theta, 0)) {}

ZipfianGenerator::ZipfianGenerator(int64_t min, int64_t max, double theta, double zetan)
    : items_(max - min + 1),
      base_(min),
      items_for_zeta_(items_),
      theta_(theta),
      alpha_(1.0 / (1.0 - theta)),
      zeta2_(Zeta(0, 2, theta, 0)),
      second_(1.0 + std::pow(0.5, theta)),
      zetan_(zetan),
      eta_(Eta()) {}

double ZipfianGenerator::Eta() const {
  return (1 - std::pow(2.0 / static_cast<double>(items_), 1 - theta_)) / (1 - zeta2_ / zetan_);
}

void ZipfianGenerator::Grow(int64_t items) {
  zetan_ = Zeta(items_for_zeta_, items, theta_, zetan_);
  items_for_zeta_ = items;
  eta_ = Eta();
}

int64_t ZipfianGenerator::At(double u, int64_t items) const {
  const double uz = u * zetan_;
  if (uz < 1.0) return base_;
  if (uz < second_) return base_ + 1;
  return base_ + static_cast<int64_t>(static_cast<double>(items) * std::pow(eta_ * u - eta_ + 1, alpha_));
}

ScrambledZipfianGenerator::ScrambledZipfianGenerator(int64_t min, int64_t max)
    // YCSB passes the bounds 0 and 10^10, both inclusive: one item more than zeta was computed for.
    : min_(min), items_(max - min + 1), zipfian_(0, kScrambledItems, kZipfianConstant, kScrambledZetan) {}

int64_t ScrambledZipfianGenerator::Scatter(int64_t rank) const { return min_ + FnvHash64(rank) % items_; }

}  // namespace farlook::bench
