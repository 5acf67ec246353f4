// The answers to a client, as the checker understands them.
#ifndef FARLOOK_TESTS_HISTORY_OUTCOME_H_
#define FARLOOK_TESTS_HISTORY_OUTCOME_H_

#include <optional>

#include "absl/status/status.h"
#include "tests/history/history.h"

namespace farlook::history {

// Returns whether an operation of this type may change the key.
constexpr bool Writes(Type type) { return type != Type::kGet && type != Type::kReadCounter; }

// Returns the outcome of an operation that ended with `status`; `has_version`: the answer has the key's version.
// Returns nothing if the operation cannot end so. A CompareSwap that ends with OK may still be a kMismatch: its caller
// compares.
std::optional<Outcome> OutcomeOf(Type type, const absl::Status& status, bool has_version);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_OUTCOME_H_
