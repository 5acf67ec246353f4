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
#include "client/linked_list.h"
#include "farlook/options.h"

namespace farlook::client {

// What an operation does, and which fields of Operation are of it. Nothing depends on the order.
enum class Kind : uint8_t {
  kGet,          // key -> to, value_bytes, version
  kExists,       // key -> version; status OK or NOT_FOUND
  kTtl,          // key -> left_ms, version
  kPut,          // key, value, condition, ttl_ms, keep_ttl, keep, refill -> version
  kDelete,       // key, condition -> version
  kTouch,        // key, ttl_ms -> version
  kPersist,      // key -> version
  kGetAndTouch,  // key, ttl_ms -> to, value_bytes, version
  kPing,         // asks the server's CPU for an answer
  kStat,         // key (what, or empty) -> to, version: lines that follow
  kAdmin,        // the same, of what operators ask for
  kWarm,         // READs the index

  // Of counters. All -> counter.
  kCreateCounter,  // key, operand: the first value; ttl_ms
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
constexpr bool IsGet(Kind kind) { return IsOneOf(kind, Kind::kGet, Kind::kExists, Kind::kTtl); }
// Whether it wants the value that it finds.
constexpr bool WantsValue(Kind kind) { return IsOneOf(kind, Kind::kGet, Kind::kGetAndTouch); }
constexpr bool IsCounter(Kind kind) {
  return IsOneOf(kind, Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap, Kind::kReadCounter,
                 Kind::kDeleteCounter);
}
// Whether its key is one of the table's.
constexpr bool IsOfAKey(Kind kind) { return !IsOneOf(kind, Kind::kPing, Kind::kStat, Kind::kAdmin, Kind::kWarm); }
// Whether it may change the table.
constexpr bool IsWrite(Kind kind) {
  return IsOneOf(kind, Kind::kPut, Kind::kDelete, Kind::kTouch, Kind::kPersist, Kind::kGetAndTouch,
                 Kind::kCreateCounter, Kind::kFetchAdd, Kind::kCompareSwap, Kind::kDeleteCounter);
}

// The milliseconds, 1 at least, that an item still has which expires at `expiry_ms` (0: never), if the server's clock
// shows at most `now_us`.
constexpr int64_t LeftMs(uint64_t expiry_ms, uint64_t now_us) {
  if (expiry_ms == 0) return kForever;
  const uint64_t end_us = expiry_ms * 1000;
  return end_us <= now_us ? 1 : static_cast<int64_t>((end_us - now_us + 999) / 1000);
}

// Where a value goes: to a string, which is resized; else to a buffer, whose bytes are undefined unless the status is
// OK.
struct Destination {
  std::string* string = nullptr;
  absl::Span<char> buffer;  // used if `string` is null
};

// Of an operation that is timed: since when, and for how many it stands; 0: it is not timed.
struct OperationTiming {
  int64_t since_ns = 0;
  uint8_t calls = 0;
};

class Engine;
struct Flight;

// An operation is in at most one queue, and in one list of deadlines.
struct QueueTag;
struct DeadlineTag;

// It belongs to the caller. From its start until it has ended, neither it nor what its key, value and destination point
// to may change.
struct Operation : Linked<QueueTag>, Linked<DeadlineTag> {
  // In.
  Kind kind = Kind::kGet;
  bool exactly_once = false;
  // A call that waits for its operations sets this, so that Poll() does not return them.
  bool blocking = false;
  // Out: it has ended, and nothing of the client refers to it any more.
  bool done = false;
  // In.
  bool keep_ttl = false;
  bool keep = false;
  bool refill = false;
  // The engines': of a kGetAndTouch that the server has carried out, and whose value is still to be read.
  bool touched = false;
  // Of a cluster: a write with which all begins anew that was refused of its slot.
  bool after_moved = false;
  // Likewise: it was refused when it was only asked for, perhaps after writes of its key that were sent later.
  bool only_asked = false;
  absl::string_view key;
  absl::string_view value;
  Condition condition;
  Destination to;
  int64_t operand = 0;
  int64_t expected = 0;
  int64_t timeout_ms = 0;  // 0: the client's
  int64_t ttl_ms = 0;      // 0: none
  void* owner = nullptr;   // the caller's

  // Out.
  absl::Status status;
  uint64_t version = 0;    // of the item now there, where known (else 0)
  size_t value_bytes = 0;  // of the value, also when the buffer was too short
  int64_t left_ms = 0;     // until the item expires; kForever
  int64_t counter = 0;     // the value before the operation took effect; also with OUT_OF_RANGE and ALREADY_EXISTS

  // Of a client of a cluster, which finds the key's group by it: the key's.
  uint64_t hash = 0;

  // The engines', while it is in flight.
  int64_t deadline_ns = 0;
  OperationTiming timing;
  Engine* engine = nullptr;  // the one that carries it out
  // Unless the operation is in that one's queue:
  Flight* flight = nullptr;  // of Reads and Counters
  uint64_t number = 0;       // of the session: of its request; where it was refused, of that which was

  static constexpr uint64_t kNotSent = UINT64_MAX;  // the number of one that moved before it was sent

  bool queued() const { return Linked<QueueTag>::linked(); }
};

using OperationQueue = LinkedList<Operation, QueueTag>;
using DeadlineList = LinkedList<Operation, DeadlineTag>;

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OPERATION_H_
