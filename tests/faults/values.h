// For tests: values that verify themselves.
#ifndef FARLOOK_TESTS_FAULTS_VALUES_H_
#define FARLOOK_TESTS_FAULTS_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook {

// Up to `most_bytes` and some more, that tell whose value this is, which one, and whether it is whole.
std::string SelfVerifying(absl::string_view key, uint64_t sequence, size_t most_bytes = 600);

// The sequence number of such a value, or -1 if it is not one that was made for this key.
int64_t Verify(absl::string_view key, absl::string_view value, size_t most_bytes = 600);

// How often to repeat something: so often that a run of all tests can afford it, or as often as is promised
// (docs/verification.md), where FARLOOK_FULL_LENGTH is set.
int64_t Repeat(int64_t usual, int64_t full);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_VALUES_H_
