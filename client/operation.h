// The engines' own record of one operation: what is asked for, where the answer goes, and what the engines keep beside
// it while it is in flight. The public operations of farlook/async.h contain one; the blocking calls make one each.
#ifndef FARLOOK_CLIENT_OPERATION_H_
#define FARLOOK_CLIENT_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "farlook/options.h"

namespace farlook::client {

// What an operation does, and which fields of Operation are of it. Nothing depends on the order.
enum class Kind : uint8_t {
  kGet,     // key -> to, value_bytes, version
  kExists,  // key -> version; status OK or NOT_FOUND
  kPut,     // key, value, condition -> version
  kDelete,  // key, condition -> version
  kPing,    // asks the server's CPU for an answer
  kStat,    // key (what, or empty) -> to

  // Of counters. All -> counter.
  kCreateCounter,  // key, operand: the first value
  kFetchAdd,       // key, operand: the delta, exactly_once
  kCompareSwap,    // key, expected, operand: the desired value, exactly_once
  kReadCounter,    // key
  kDeleteCounter,  // key
};

// Whether `kind` is one of `kinds`: two instructions for any choice.
template <typename... Kinds>
constexpr bool IsOneOf(Kind kind, Kinds... kinds) {
  return ((uint32_t{1} << static_cast<int>(kind)) & (... | (uint32_t{1} << static_cast<int>(kinds)))) != 0;
}
constexpr bool IsGet(Kind kind) { return IsOneOf(kind, Kind::kGet, Kind::kExists); }
constexpr bool IsCounter(Kind kind) {
  return IsOneOf(kind, Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap, Kind::kReadCounter,
                 Kind::kDeleteCounter);
}
// Whether it may change the table.
constexpr bool IsWrite(Kind kind) {
  return IsOneOf(kind, Kind::kPut, Kind::kDelete, Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap,
                 Kind::kDeleteCounter);
}

// Where a value goes: to a string, which is resized; else to a buffer, whose bytes are undefined unless the status is
// OK.
struct Destination {
  std::string* string = nullptr;
  absl::Span<char> buffer;  // used if `string` is null
};

// It belongs to the caller. From its start until it has ended, neither it nor what its key, value and destination point
// to may change.
struct Operation {
  // In.
  Kind kind = Kind::kGet;
  bool exactly_once = false;
  // Set by who waits for it in a call: it is not returned by Poll().
  bool blocking = false;
  // Out: it has ended, and nothing of the client refers to it any more.
  bool done = false;
  absl::string_view key;
  absl::string_view value;
  Condition condition;
  Destination to;
  int64_t operand = 0;
  int64_t expected = 0;
  int64_t timeout_ms = 0;  // 0: the client's
  void* owner = nullptr;   // the caller's

  // Out.
  absl::Status status;
  uint64_t version = 0;    // of the item now there, where known (else 0)
  size_t value_bytes = 0;  // of the value, also when the buffer was too short
  int64_t counter = 0;     // the value before the operation took effect; also with OUT_OF_RANGE and ALREADY_EXISTS

  // The engines', while it is in flight.
  Operation* next = nullptr;
  int64_t deadline_ns = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OPERATION_H_
