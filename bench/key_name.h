// Names of records: "user" and a number, the record's own (ordered) or its hash (hashed).
#ifndef FARLOOK_BENCH_KEY_NAME_H_
#define FARLOOK_BENCH_KEY_NAME_H_

#include <cstdint>
#include <string>

namespace farlook::bench {

struct KeyNaming {
  bool ordered = false;
  int zero_padding = 1;  // least digits of the number
};

// Replaces *name by the key of record `number`, as CoreWorkload.buildKeyName of YCSB 0.17. No allocation once *name has
// grown to its size.
void BuildKeyName(int64_t number, const KeyNaming& naming, std::string* name);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_KEY_NAME_H_
