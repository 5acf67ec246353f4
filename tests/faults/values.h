// For tests: values that verify themselves.
#ifndef FARLOOK_TESTS_FAULTS_VALUES_H_
#define FARLOOK_TESTS_FAULTS_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook {

// Returns up to `most_bytes` and some more, which show the value's key, its sequence, and whether it is whole.
std::string SelfVerifying(absl::string_view key, uint64_t sequence, size_t most_bytes = 600);

// Returns the sequence number of such a value, or -1 if it was not made for this key.
int64_t Verify(absl::string_view key, absl::string_view value, size_t most_bytes = 600);

// Returns the number of repetitions: `usual`, which a run of all tests can afford, or `full`, which is promised
// (docs/verification.md), if FARLOOK_FULL_LENGTH is set.
int64_t Repeat(int64_t usual, int64_t full);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_VALUES_H_
