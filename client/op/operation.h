// The engines' record of one operation: its request, the destination of the result, and the engines' state while it is
// in flight. The public operations of farlook/async.h contain one; the blocking calls make one each.
#ifndef FARLOOK_CLIENT_OP_OPERATION_H_
#define FARLOOK_CLIENT_OP_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/linked_list.h"
#include "farlook/options.h"

namespace farlook::client {

// The kind of an operation, with the fields of Operation that it uses. Nothing depends on the order.
enum class Kind : uint8_t {
  kGet,          // key -> to, value_bytes, version
  kExists,       // key -> version; status OK or NOT_FOUND
  kTtl,          // key -> left_ms, kept, version
  kPut,          // key, value, condition, ttl_ms, keep_ttl, keep, refill -> version
  kDelete,       // key, condition -> version
  kTouch,        // key, ttl_ms -> version
  kPersist,      // key -> version
  kGetAndTouch,  // key, ttl_ms -> to, value_bytes, version
  kPing,         // asks the server's CPU for a reply
  kStat,         // key (subject, or empty) -> to, version: number of lines that follow
  kAdmin,        // the same, for requests of operators
  kWarm,         // READs the index
  kScan,         // READs a part of the table (scan_operation.h)

  // Counters. All -> counter.
  kCreateCounter,  // key, operand: the first value; ttl_ms
  kFetchAdd,       // key, operand: the delta, exactly_once; create, expected: the initial value, ttl_ms
  kCompareSwap,    // key, expected, operand: the desired value, exactly_once
  kReadCounter,    // key
  kDeleteCounter,  // key
};

// Returns whether `kind` is one of `kinds`: two instructions for any choice.
template <typename... Kinds>
constexpr bool IsOneOf(Kind kind, Kinds... kinds) {
  return ((uint32_t{1} << static_cast<int>(kind)) & (... | (uint32_t{1} << static_cast<int>(kinds)))) != 0;
}
constexpr bool IsGet(Kind kind) { return IsOneOf(kind, Kind::kGet, Kind::kExists, Kind::kTtl); }
// Returns whether it needs the value that it finds.
constexpr bool WantsValue(Kind kind) { return IsOneOf(kind, Kind::kGet, Kind::kGetAndTouch); }
constexpr bool IsCounter(Kind kind) {
  return IsOneOf(kind, Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap, Kind::kReadCounter,
                 Kind::kDeleteCounter);
}
// Returns whether its key is a key of the table.
constexpr bool IsOfAKey(Kind kind) {
  return !IsOneOf(kind, Kind::kPing, Kind::kStat, Kind::kAdmin, Kind::kWarm, Kind::kScan);
}
// Returns whether it may change the table.
constexpr bool IsWrite(Kind kind) {
  return IsOneOf(kind, Kind::kPut, Kind::kDelete, Kind::kTouch, Kind::kPersist, Kind::kGetAndTouch,
                 Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap, Kind::kDeleteCounter);
}

// Returns the remaining life in milliseconds, at least 1, of an item that expires at `expiry_ms` (0: never). The
// server's clock shows at most `now_us`.
constexpr int64_t LeftMs(uint64_t expiry_ms, uint64_t now_us) {
  if (expiry_ms == 0) return kForever;
  const uint64_t end_us = expiry_ms * 1000;
  return end_us <= now_us ? 1 : static_cast<int64_t>((end_us - now_us + 999) / 1000);
}

// Destination of a value: a string, which is resized; else a buffer, whose bytes are undefined unless the status is OK.
struct Destination {
  std::string* string = nullptr;
  absl::Span<char> buffer;  // used if `string` is null
};

// Start time of a timed operation, and the number of calls that it counts for; 0: not timed.
struct OperationTiming {
  int64_t since_ns = 0;
  uint8_t calls = 0;
};

class Engine;
struct Flight;

// An operation is in at most one queue, and in one list of deadlines.
struct QueueTag;
struct DeadlineTag;

// Owned by the caller. While it is in flight, it must not change, nor its key, its value and its destination.
struct Operation : Linked<QueueTag>, Linked<DeadlineTag> {
  // In.
  Kind kind = Kind::kGet;
  bool exactly_once = false;
  // Set by calls that wait for their operations, so that Poll() does not return them.
  bool blocking = false;
  // Out: it has ended, and nothing of the client refers to it any more.
  bool done = false;
  // Out: PutOptions::keep of the item.
  bool kept = false;
  // In.
  bool keep_ttl = false;
  bool keep = false;
  bool refill = false;
  bool create = false;
  // For the engines: the server has executed the touch of a kGetAndTouch, and the value is still to be read.
  bool touched = false;
  // Clusters: the first write of a slot that is started again after the slot's operations were refused.
  bool after_moved = false;
  // Clusters: it was refused when it was sent with kOnlyAsked, perhaps after writes of its key that were sent later.
  bool only_asked = false;
  absl::string_view key;
  absl::string_view value;
  Condition condition;
  Destination to;
  int64_t operand = 0;
  int64_t expected = 0;
  int64_t timeout_ms = 0;  // 0: the client's
  int64_t ttl_ms = 0;      // 0: none
  void* owner = nullptr;   // for the caller

  // Out.
  absl::Status status;
  uint64_t version = 0;    // of the item now present, if known (else 0)
  size_t value_bytes = 0;  // of the value, also if the buffer was too short
  int64_t left_ms = 0;     // until the item expires; kForever
  int64_t counter = 0;     // the value before the operation took effect; also with OUT_OF_RANGE and ALREADY_EXISTS

  // Hash of the key in a client of a cluster, which finds the key's group by it.
  uint64_t hash = 0;

  // For the engines, while it is in flight.
  int64_t deadline_ns = 0;
  OperationTiming timing;
  Engine* engine = nullptr;  // the engine that executes it
  // Unless the operation is in that engine's queue:
  Flight* flight = nullptr;  // of Reads and Counters
  uint64_t number = 0;       // of its request in the session; after a refusal, of the refused request

  static constexpr uint64_t kNotSent = UINT64_MAX;  // the number if it moved before it was sent

  bool queued() const { return Linked<QueueTag>::linked(); }
};

// Sets the options of an operation on a counter, except the timeout.
inline void TakeOptions(const CounterOptions& options, Kind kind, Operation* operation) {
  operation->exactly_once = options.exactly_once;
  operation->create = kind == Kind::kFetchAdd && options.create;
  if (operation->create) operation->expected = options.initial;
  operation->ttl_ms = operation->create || kind == Kind::kCreateCounter ? options.ttl_ms : 0;
}

using OperationQueue = LinkedList<Operation, QueueTag>;
using DeadlineList = LinkedList<Operation, DeadlineTag>;

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_OPERATION_H_
