// What clients asked of a store and what they were told, in the order of one clock: material for check.h.
//
// A value names the write that wrote it: each write of a history has a number of its own and its value says which. Who
// records, in simulation or against real processes, adds an Operation when it is handed in and fills in the rest when
// it ends. The clock's resolution only needs to be such that "ended before the other began" is never said wrongly.
#ifndef FARLOOK_TESTS_HISTORY_HISTORY_H_
#define FARLOOK_TESTS_HISTORY_HISTORY_H_

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
};

enum class Outcome : uint8_t {
  kPending,   // not ended, or nobody can say: it took effect once, now or at any later time, or never
  kOk,        // it took effect; a get found the key
  kNotFound,  // the key was absent
  kExists,    // an insert found the key present
  kMismatch,  // a compare-and-set found another version
  kNothing,   // it had no effect, and says nothing of the key
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
  uint64_t expected = 0;  // version that a compare-and-set wants
  uint64_t version = 0;   // the key's, afterwards, where the client was told; 0: it was not
};

// All operations on one key.
using KeyHistory = std::vector<Operation>;

// One line: "client 3 [1200, 1850] put #17 -> ok version 9".
std::string ToString(const Operation& operation);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_HISTORY_H_
