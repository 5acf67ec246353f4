// Names of records: "user" and the hash of the record's number.
//
// The hash is YCSB's; its scrambled zipfian order uses it too. It resembles FNV-1a over the 8 octets of a number,
// lowest first, and ends with Java's Math.abs. Published results depend on its exact data, so testdata/keys.tsv pins
// it. Not used for anything else.
#ifndef FARLOOK_BENCH_COMMON_KEY_NAME_H_
#define FARLOOK_BENCH_COMMON_KEY_NAME_H_

#include <cstdint>
#include <string>

namespace farlook::bench {

// Equal to site.ycsb.Utils.fnvhash64. The result is never negative except for INT64_MIN, which has no absolute value
// (in Java neither).
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

// Replaces *name by the key of record `number`, as CoreWorkload.buildKeyName of YCSB 0.17. No allocation once *name has
// grown to its size.
void BuildKeyName(int64_t number, std::string* name);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_KEY_NAME_H_
