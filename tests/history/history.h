// The requests of clients to a store and their answers, in the order of one clock: input for check.h.
//
// A value names the write that wrote it: each write of a history has a separate number, and its value contains it. A
// recorder, in simulation or against real processes, adds an Operation when it starts and fills in the rest when it
// ends. The clock's resolution must only ensure that "ended before the other began" is never wrong. A client knows the
// order of its own operations better than any clock: see `began`.
#ifndef FARLOOK_TESTS_HISTORY_HISTORY_H_
#define FARLOOK_TESTS_HISTORY_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace farlook::history {

enum class Type : uint8_t {
  kGet,            // and Exists
  kPut,            //
  kInsert,         // only if absent
  kReplace,        // only if present
  kCompareAndSet,  // only if the version is `expected`
  kDelete,         //
  kWipe,           // not a client's: the table began anew, empty, at some moment within
  kExpire,  // not a client's: the value of the write `found` ends at some moment within, where it is still there.
            // kPending: at any later moment, or never, for example where it may be evicted

  // Operations on counters. A key names a value, or a counter, or nothing.
  kCreateCounter,  // only if absent; `operand` is the first value
  kFetchAdd,       // `operand` is the delta
  kAddOrCreate,    // the same; where the key is absent, a counter of `expected_counter` is created first
  kCompareSwap,    // to `operand`, only if the counter is `expected_counter`
  kReadCounter,
  kDeleteCounter,
};
inline constexpr size_t kTypes = static_cast<size_t>(Type::kDeleteCounter) + 1;

enum class Outcome : uint8_t {
  kPending,    // not ended, or nobody can say: it took effect once, now or at any later time, or never
  kOk,         // it took effect; a get found the key
  kNotFound,   // the key was absent
  kExists,     // an insert found a value, a creation a counter
  kMismatch,   // a compare-and-set found another version, a compare-and-swap another number
  kWrongKind,  // the key named a counter, or a value where a counter was asked for
  kNothing,    // it had no effect, and says nothing of the key
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Operation {
  Type type = Type::kGet;
  Outcome outcome = Outcome::kPending;
  int client = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = kNever;
  uint64_t write = 0;     // number of this write, from 1; 0 of what writes no value
  uint64_t found = 0;     // number of the write whose value was found; 0: not known (Exists; kExists)
  uint64_t expected = 0;  // version that a compare-and-set expects
  uint64_t version = 0;   // the key's, afterwards, where the client was told; 0: it was not
  int64_t operand = 0;    // of an operation on a counter, as above
  int64_t expected_counter = 0;
  int64_t counter = 0;  // what the counter was before; kOk, kExists and kMismatch of these operations return it

  // Places in the order of this client's operations: each begin and each end of an operation is one, from 1 on. 0: not
  // known. An operation that began after the end of another was not concurrent with it. This holds even where the clock
  // shows no difference, or where only a span of time is known for each of them.
  uint64_t began = 0;
  uint64_t ended = 0;
  // Not 0: writes of this client with the same number take effect in the order in which they began, also where they are
  // concurrent. One that never ended takes effect before those that began later and took effect, or never.
  uint64_t session = 0;
  // For an unknown outcome: takes effect before any operation that begins later than this, or never.
  int64_t until_ns = kNever;
};

// Returns whether the operation is one on counters.
constexpr bool IsOfCounter(Type type) { return type >= Type::kCreateCounter; }

// Returns whether `counter` has what the counter was before.
constexpr bool HasCounterValue(const Operation& operation) {
  return IsOfCounter(operation.type) &&
         (operation.outcome == Outcome::kOk || operation.outcome == Outcome::kExists ||
          operation.outcome == Outcome::kMismatch) &&
         !(operation.type == Type::kCreateCounter && operation.outcome == Outcome::kOk);
}

// All operations on one key.
using KeyHistory = std::vector<Operation>;

// One line: "client 3 [1200, 1850] put #17 -> ok version 9".
std::string ToString(const Operation& operation);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_HISTORY_H_
