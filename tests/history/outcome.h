// What a client was told, as the checker understands it.
#ifndef FARLOOK_TESTS_HISTORY_OUTCOME_H_
#define FARLOOK_TESTS_HISTORY_OUTCOME_H_

#include <optional>

#include "absl/status/status.h"
#include "tests/history/history.h"

namespace farlook::history {

// The type of an operation of client/client.h, or of the copy of it that simulations are made of; without Ping and
// Stat.
template <typename ClientType>
constexpr Type TypeOf(ClientType type) {
  switch (type) {
    case ClientType::kPut:
      return Type::kPut;
    case ClientType::kInsert:
      return Type::kInsert;
    case ClientType::kReplace:
      return Type::kReplace;
    case ClientType::kCompareAndSet:
      return Type::kCompareAndSet;
    case ClientType::kDelete:
      return Type::kDelete;
    case ClientType::kCreateCounter:
      return Type::kCreateCounter;
    case ClientType::kFetchAdd:
      return Type::kFetchAdd;
    case ClientType::kCompareSwap:
      return Type::kCompareSwap;
    case ClientType::kReadCounter:
      return Type::kReadCounter;
    case ClientType::kDeleteCounter:
      return Type::kDeleteCounter;
    default:
      return Type::kGet;
  }
}

// Whether an operation of this type may change the key.
constexpr bool Writes(Type type) { return type != Type::kGet && type != Type::kReadCounter; }

// The outcome of an operation that ended with `status`; `has_version`: it came with the key's version. Nothing if that
// is no way for it to end. A CompareSwap that ends with OK may still be a kMismatch: its caller compares.
std::optional<Outcome> OutcomeOf(Type type, const absl::Status& status, bool has_version);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_OUTCOME_H_
