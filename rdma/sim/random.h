// The only source of randomness in a simulated run: small, fast, and the same on every machine.
#ifndef FARLOOK_RDMA_SIM_RANDOM_H_
#define FARLOOK_RDMA_SIM_RANDOM_H_

#include <cstdint>

namespace farlook::rdma::sim {

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15); }
  // [0, n). REQUIRES n > 0.
  uint64_t Below(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(static_cast<Wide>(Next()) * n >> 64);
  }
  // [least, most].
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Below(static_cast<uint64_t>(most - least) + 1));
  }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  bool PerMillion(uint32_t n) { return n != 0 && Below(1'000'000) < n; }

 private:
  uint64_t state_;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_RANDOM_H_
