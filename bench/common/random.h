// A small, fast, seeded source of random numbers for the driver's own loop, where a slow one would distort the
// measurement.
//
// xoshiro256** of Blackman and Vigna ("Scrambled linear pseudorandom number generators", 2018), seeded by splitmix64.
#ifndef FARLOOK_BENCH_COMMON_RANDOM_H_
#define FARLOOK_BENCH_COMMON_RANDOM_H_

#include <bit>
#include <cstdint>

namespace farlook::bench {

// Thread safety: belongs to one thread. Two with the same seed give the same numbers on every machine.
class Random {
 public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      word = z ^ (z >> 31);
    }
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1), in steps of 2^-53, as Java's nextDouble.
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Uniform in [0, bound), the bias below bound / 2^64. REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() { return Next(); }

 private:
  uint64_t state_[4];
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_RANDOM_H_
