// Contents of fields: random characters, or text that can be verified when it is read.
#ifndef FARLOOK_BENCH_YCSB_FIELD_VALUES_H_
#define FARLOOK_BENCH_YCSB_FIELD_VALUES_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "bench/common/random.h"

namespace farlook::bench {

// Replaces *bytes by `length` random printable characters.
void RandomFieldValue(size_t length, Random* random, std::string* bytes);

// Replaces *bytes by the value that YCSB 0.17 writes with dataintegrity=true: "KEY:NAME", then repeatedly ":" and
// Java's hashCode of everything before it, truncated to `length`. `name` is the field's, such as "field3".
void DeterministicFieldValue(absl::string_view key, absl::string_view name, size_t length, std::string* bytes);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_YCSB_FIELD_VALUES_H_
