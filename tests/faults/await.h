// For tests: waiting for effects of other processes.
#ifndef FARLOOK_TESTS_FAULTS_AWAIT_H_
#define FARLOOK_TESTS_FAULTS_AWAIT_H_

#include <chrono>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace farlook {

// The limit for any wait: emulated, on a busy machine.
inline constexpr auto kBound = std::chrono::seconds(60);

// Checks every `every_us` whether `condition` holds. Returns false if it did not within kBound.
bool Await(absl::FunctionRef<bool()> condition, unsigned every_us = 20'000);

// The same, and prints how long it took: "WHO knew after 2940 ms". For events with a bound of some seconds, which an
// emulated device on a busy machine cannot be held to; docs/verification.md has the measurements.
bool AwaitAndLog(absl::string_view who, absl::FunctionRef<bool()> condition);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_AWAIT_H_
