// The 64-bit hash that YCSB makes its keys and its scrambled zipfian order with.
//
// It has the shape of FNV-1a over the 8 octets of a number, lowest first, and ends with Java's Math.abs. What it gives
// is data that other people's results depend on, so it is pinned by testdata/keys.tsv. Not used for anything else.
#ifndef FARLOOK_BENCH_FNV_H_
#define FARLOOK_BENCH_FNV_H_

#include <cstdint>

namespace farlook::bench {

// As site.ycsb.Utils.fnvhash64. The result is never negative but for INT64_MIN, which has no absolute value (in Java
// neither).
constexpr int64_t FnvHash64(int64_t value) {
  uint64_t rest = static_cast<uint64_t>(value);
  uint64_t hash = 0xCBF29CE484222325u;
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (rest & 0xff)) * 1099511628211u;
    rest >>= 8;
  }
  const bool negative = (hash >> 63) != 0;
  return static_cast<int64_t>(negative ? 0 - hash : hash);
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_FNV_H_
