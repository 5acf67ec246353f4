// The messages between client and server after the handshake (handshake.h): one SEND each. All integers are
// little-endian; docs/protocol.md shows every byte.
//
//      Request (40 bytes, options, key, value) ->        <- Reply (40 bytes, payload), or a notice (cell_notice.h)
//
// Every decoder takes untrusted bytes and returns a view into them or a reason.
#ifndef FARLOOK_KV_WIRE_MESSAGE_H_
#define FARLOOK_KV_WIRE_MESSAGE_H_

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"
#include "kv/wire/request_options.h"

namespace farlook::kv {

enum class RequestType : uint8_t {
  kPut = 1,        // key and value in the message
  kPutPulled = 2,  // key, then a ValueSource: the server READs the value
  kDelete = 3,
  kGet = 4,  // the fallback of a reader that was overtaken by writers too often
  kPing = 5,
  kStat = 6,  // "key" names the subject; the payload is text, one "name value" a line

  // Counters: the reply's payload is a CounterResult.
  kCounterCreate = 7,  // operand: the first value; kExists if the key is present
  kCounterAdd = 8,     // operand: the delta; RequestOptions::create
  kCounterSwap = 9,    // operand: expected; desired. kOk also if the counter has another value, which the reply
                       // contains
  kCounterRead = 10,
  kCounterDelete = 11,

  // Without a number and without a reply.
  kCellsDropped = 12,  // acknowledges a CellNotice (cell_notice.h), whose sequence is the operand
  kGoodbye = 13,       // the client will not reconnect: the session is forgotten when the connection ends
  kTouched = 14,       // reports gets of a cache's client: value is a TouchedLocations (touched.h)

  // Expiry: RequestOptions::ttl_us; without one the item never expires.
  kTouch = 15,        // key; nothing else of its item changes
  kGetAndTouch = 16,  // key; the reply's payload is that of a kGet
  kTtl = 17,          // key; for a reader that cannot determine the ttl: the reply's payload is a TtlResult

  kFigures = 18,  // reports a client's gets, without a number and without a reply: value is ClientFigures
                  // (client_figures.h)

  kAdmin = 19,  // for operators; "key" is the command: "clients@ID" or "kick ID"; the payload is text, as of a kStat

  // Several requests in one message, if the Welcome allows it.
  kGets = 20,  // several kGet: value is their keys (gets.h)
  kPuts = 21,  // several kPut, with the same condition, version and options: value is keys and values (puts.h)
};
inline constexpr int kRequestTypes = 22;  // from 0, which is no type

constexpr bool IsRequestType(uint8_t type) { return type != 0 && type < kRequestTypes; }

constexpr bool IsCounterRequest(RequestType type) {
  return type >= RequestType::kCounterCreate && type <= RequestType::kCounterDelete;
}
// Returns whether a request changes the table. The outcomes of other requests are not kept: a resent one is executed
// again.
constexpr bool IsWrite(RequestType type) {
  switch (type) {
    case RequestType::kPut:
    case RequestType::kPutPulled:
    case RequestType::kDelete:
    case RequestType::kCounterCreate:
    case RequestType::kCounterAdd:
    case RequestType::kCounterSwap:
    case RequestType::kCounterDelete:
    case RequestType::kTouch:
    case RequestType::kGetAndTouch:
      return true;
    case RequestType::kGet:
    case RequestType::kTtl:
    case RequestType::kPing:
    case RequestType::kStat:
    case RequestType::kCounterRead:
    case RequestType::kCellsDropped:
    case RequestType::kGoodbye:
    case RequestType::kTouched:
    case RequestType::kFigures:
    case RequestType::kAdmin:
    case RequestType::kGets:
    case RequestType::kPuts:
      break;
  }
  return false;
}
// Returns whether a request has a number within its session, and a reply.
constexpr bool IsNumbered(RequestType type) {
  return type != RequestType::kCellsDropped && type != RequestType::kGoodbye && type != RequestType::kTouched &&
         type != RequestType::kFigures;
}
// Returns whether the request names an item, so that its key is not empty.
constexpr bool HasKey(RequestType type) {
  return type <= RequestType::kGet || IsCounterRequest(type) ||
         (type >= RequestType::kTouch && type <= RequestType::kTtl);
}
// Returns whether the request contains a value.
constexpr bool HasValue(RequestType type) {
  return type == RequestType::kPut || type == RequestType::kTouched || type == RequestType::kFigures ||
         type == RequestType::kGets || type == RequestType::kPuts;
}
// Returns whether the request puts values.
constexpr bool PutsValues(RequestType type) {
  return type == RequestType::kPut || type == RequestType::kPutPulled || type == RequestType::kPuts;
}
// Returns whether the request may have a Condition.
constexpr bool MayHaveCondition(RequestType type) { return type <= RequestType::kGet || type == RequestType::kPuts; }
// Returns whether the request may set an item's expiry.
constexpr bool MayHaveTtl(RequestType type) {
  return PutsValues(type) || type == RequestType::kCounterCreate || type == RequestType::kCounterAdd ||
         type == RequestType::kTouch || type == RequestType::kGetAndTouch;
}
// Returns whether the request contains CounterOperands.
constexpr bool HasOperands(RequestType type) {
  return type == RequestType::kCounterCreate || type == RequestType::kCounterAdd || type == RequestType::kCounterSwap ||
         type == RequestType::kCellsDropped;
}

// The condition under which a write applies. Otherwise it changes nothing and the reply says why.
enum class Condition : uint8_t {
  kAlways = 0,
  kAbsent = 1,   // only if the key is absent, else kExists
  kPresent = 2,  // only if it is present, else kNotFound
  kVersion = 3,  // only if its version is Request::version, else kVersionMismatch, or kNotFound
};

// The place from which the server pulls a value.
//      0 address u64 | 8 hash u64, of the value, by the region's Hasher | 16 rkey u32 | 20 zero u32
struct ValueSource {
  static constexpr size_t kBytes = 24;
  uint64_t address = 0;  // a multiple of 8
  uint64_t hash = 0;
  uint32_t rkey = 0;
};

// The arguments of a request about a counter, in addition to its key.
//      0 operand i64 | 8 desired i64
struct CounterOperands {
  static constexpr size_t kBytes = 16;
  int64_t operand = 0;
  int64_t desired = 0;  // kCounterSwap
};

// Requests are numbered from 1 within a session. A resent request has the same number and the same contents, except for
// the rkey of a ValueSource, which belongs to the connection, the deadline, and kOnlyAsked.
//      0 type u8 | 1 condition u8 | 2 key bytes u16 | 4 value bytes u32 | 8 number u64 | 16 version u64, for
//        Condition::kVersion | 24 deadline u64 | 32 option bytes u16 | 34 flags u16 | 36 zero u32
//     40 options, fields (fields.h) whose length is a multiple of 8 | key | value; or, at the next multiple of 8,
//        ValueSource or CounterOperands
struct Request {
  static constexpr size_t kHeaderBytes = 40;

  RequestType type = RequestType::kPing;
  Condition condition = Condition::kAlways;
  uint64_t number = 0;
  uint64_t version = 0;  // for Condition::kVersion
  // The deadline of the operation, in microseconds of the server's clock; 0: none. The server does not begin a request
  // after its deadline (kExpired). A request whose operation has already ended is resent with kLongOver.
  uint64_t deadline_us = 0;
  static constexpr uint64_t kLongOver = 1;
  // For writes to a cluster, some of which are refused with kMoved: keeps their order (docs/protocol.md, "Order"). The
  // first retried write of the slot over this connection carries this flag.
  static constexpr uint16_t kAfterMoved = 1;
  // Queries the outcome: the request is refused unless it was executed before, and so are later requests of its slot.
  static constexpr uint16_t kOnlyAsked = 2;
  uint16_t flags = 0;
  absl::string_view options;  // RequestOptions, and those of later releases
  absl::string_view key;      // 1..1,024 bytes if HasKey(type); otherwise any length
  uint32_t value_bytes = 0;   // if HasValue(type) value.size(); kPutPulled: length of the value to pull
  absl::string_view value;    // if HasValue(type)
  ValueSource source;         // kPutPulled
  CounterOperands operands;   // if HasOperands(type)
  RequestOptions option;      // set by Decode, from `options`
  // Set by Decode: the request has a flag, or a critical option, that this release does not know. Answered with
  // kUnsupported.
  bool unsupported = false;

  // Encodes header, options, key, and source or operands after zeros up to a multiple of 8; a kPut's value must follow.
  // `to` has room for kMaxRequestHeadBytes. Returns the length. REQUIRES options.size() <= kMaxOptionBytes, a multiple
  // of 8.
  size_t EncodeHead(char* to) const;
  static absl::StatusOr<Request> Decode(absl::string_view bytes);
  // The same into a request that may have been used before: fields that a kPut does not have, source and operands, may
  // keep their old values. After an error no field is valid.
  static absl::Status Decode(absl::string_view bytes, Request* to);
};

// The key and value of a put; both point to the caller's memory.
struct KeyValue {
  absl::string_view key, value;
};

// A put without condition, options and flags: most requests are.
struct PlainPut {
  KeyValue item;
  uint64_t number = 0;
  uint64_t deadline_us = 0;  // see Request

  // Decodes untrusted bytes, to which the result points. Returns false, and sets nothing, if it is another request or
  // malformed; Request::Decode() distinguishes these.
  static bool Decode(absl::string_view bytes, PlainPut* to) {
    constexpr size_t kHeaderBytes = Request::kHeaderBytes;
    if (bytes.size() < kHeaderBytes) return false;
    const char* const at = bytes.data();
    const uint64_t first = LoadAs<uint64_t>(at), number = LoadAs<uint64_t>(at + 8);
    const size_t key_bytes = first >> 16 & 0xffff, value_bytes = first >> 32;
    const bool is_plain = (first & 0xffff) == static_cast<uint8_t>(RequestType::kPut) && number != 0 &&
                          (LoadAs<uint64_t>(at + 16) | LoadAs<uint64_t>(at + 32)) == 0 &&
                          key_bytes - kMinKeyBytes <= kMaxKeyBytes - kMinKeyBytes &&
                          bytes.size() == kHeaderBytes + key_bytes + value_bytes;
    if (!is_plain) return false;
    to->number = number;
    to->deadline_us = LoadAs<uint64_t>(at + 24);
    to->item.key = {at + kHeaderBytes, key_bytes};
    to->item.value = {at + kHeaderBytes + key_bytes, value_bytes};
    return true;
  }
};

// Inline, so that a caller with the parts in registers need not construct a Request.
inline size_t Request::EncodeHead(char* to) const {
  StoreAs(to, uint64_t{static_cast<uint8_t>(type)} | uint64_t{static_cast<uint8_t>(condition)} << 8 |
                  uint64_t{static_cast<uint16_t>(key.size())} << 16 | uint64_t{value_bytes} << 32);
  StoreAs(to + 8, number);
  StoreAs(to + 16, version);
  StoreAs(to + 24, deadline_us);
  StoreAs(to + 32, uint64_t{static_cast<uint16_t>(options.size())} | uint64_t{flags} << 16);
  size_t bytes = kHeaderBytes;
  if (!options.empty()) [[unlikely]] {
    std::memcpy(to + bytes, options.data(), options.size());
    bytes += options.size();
  }
  if (!key.empty()) std::memcpy(to + bytes, key.data(), key.size());
  bytes += key.size();
  if (type != RequestType::kPutPulled && !HasOperands(type)) return bytes;
  for (; bytes % 8 != 0; ++bytes) to[bytes] = 0;
  if (type == RequestType::kPutPulled) {
    StoreAs(to + bytes, source.address);
    StoreAs(to + bytes + 8, source.hash);
    StoreAs(to + bytes + 16, source.rkey);
    StoreAs(to + bytes + 20, uint32_t{0});
    return bytes + ValueSource::kBytes;
  }
  StoreAs(to + bytes, operands.operand);
  StoreAs(to + bytes + 8, operands.desired);
  return bytes + CounterOperands::kBytes;
}

inline constexpr size_t kMaxOptionBytes = 256;
inline constexpr size_t kMaxRequestHeadBytes =
    Request::kHeaderBytes + kMaxOptionBytes + kMaxKeyBytes + ValueSource::kBytes;
static_assert(kMaxRequestHeadBytes <= kMaxMessageBytes);

// Returns whether options, key and value of a kPut fit in one message.
constexpr bool FitsInMessage(uint64_t key_bytes, uint64_t value_bytes, uint64_t option_bytes = 0) {
  return Request::kHeaderBytes + option_bytes + key_bytes + value_bytes <= kMaxMessageBytes;
}

// The result of a request. In parentheses the absl code that a client reports.
enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,         // the key is absent (NOT_FOUND)
  kExists = 2,           // Condition::kAbsent, but present; version is the present one (ALREADY_EXISTS)
  kVersionMismatch = 3,  // version is the present one (ABORTED)
  kNoMemory = 4,         // the region is full (RESOURCE_EXHAUSTED)
  kIndexFull = 5,        // too many keys whose hashes collide (RESOURCE_EXHAUSTED)
  kTooLarge = 6,         // value above the server's limit (INVALID_ARGUMENT)
  kReadOnly = 7,         // a read-only client may not write (PERMISSION_DENIED)
  kBadValue = 8,         // the pulled value's hash does not match, or it could not be pulled (DATA_LOSS)
  kOutcomeUnknown = 9,   // below the floor of remembered replies (UNKNOWN)
  kWrongKind = 10,       // a counter where a value was asked for, or the reverse (FAILED_PRECONDITION)
  kShuttingDown = 11,    // not executed (UNAVAILABLE)
  kOutOfRange = 12,      // a counter is, or would get, outside its range, with its value (OUT_OF_RANGE)
  kExpired = 13,         // its deadline had passed: not executed, and never will be (DEADLINE_EXCEEDED)
  kUnsupported = 14,     // needs something that this server does not know; not executed (UNIMPLEMENTED)
  kNotAllowed = 15,      // its user lacks the role admin; not executed (PERMISSION_DENIED)
  kMoved = 16,           // in a cluster: the key belongs to another group; not executed (FAILED_PRECONDITION)

  // Within the server, never in a reply.
  kTimeIsOver = 252,  // in a group: the key's item has expired, but stays until a record ends it
  kLater = 253,       // another component will answer it
  kBusy = 254,        // nothing was done: in a group an earlier write to the key is not finished
  kMakingRoom = 255,  // nothing was done, but there will be room; release the lock and call again
};
inline constexpr int kCodes = 17;  // that a reply may contain
absl::string_view CodeName(Code code);

// The payload of a reply about a counter, if the code is kOk, kExists of a counter, or kOutOfRange.
//      0 value i64 | 8 cell u64
struct CounterResult {
  static constexpr size_t kBytes = 16;
  int64_t value = 0;  // before the request; for kOk of kCounterCreate the first value
  uint64_t cell = 0;  // the offset of the cell; 0: not given

  void Encode(char* to) const;  // `to` has room for kBytes
  // Returns false if it is no payload about a counter.
  static bool Decode(absl::string_view payload, CounterResult* result);
};

// The payload of the reply to a kTtl, if the code is kOk.
//      0 expires u64 | 8 item flags u8 | 9 zero, 7 bytes
// A server of an earlier release omits everything after `expires`.
struct TtlResult {
  static constexpr size_t kBytes = 16;
  uint64_t expires_ms = 0;  // of the server's clock, which the reply also contains; 0: never
  uint8_t item_flags = 0;   // RequestOptions::ItemFlags

  // `to` has room for kBytes.
  void Encode(char* to) const {
    StoreAs(to, expires_ms);
    StoreAs(to + 8, uint64_t{item_flags});
  }
  // Returns false if it is no payload of a kTtl.
  static bool Decode(absl::string_view payload, TtlResult* result) {
    if (payload.size() < sizeof result->expires_ms) return false;
    result->expires_ms = LoadAs<uint64_t>(payload.data());
    result->item_flags = payload.size() > 8 ? static_cast<uint8_t>(payload[8]) : 0;
    return true;
  }
};

//      0 code u8 | 1 flags u8 | 2 zero u16 | 4 payload bytes u32 | 8 number u64 | 16 version u64 | 24 slot u64
//     32 time u64 | 40 payload
struct Reply {
  static constexpr size_t kHeaderBytes = 40;

  Code code = Code::kOk;
  uint8_t flags = 0;  // none defined yet; unknown flags are ignored
  uint64_t number = 0;
  uint64_t version = 0;       // of the present item, if the request determined it
  Slot slot;                  // its location
  uint64_t time_us = 0;       // the server's clock when it wrote the reply
  absl::string_view payload;  // kGet: the value if it fits in a message (else empty, and slot gives its location);
                              // kStat: text; counters: CounterResult; kTtl: TtlResult

  // Encodes the header for a payload of payload.size() bytes. `to` has room for kHeaderBytes.
  [[gnu::always_inline]] void EncodeHead(char* to) const {
    StoreAs(to, uint64_t{static_cast<uint8_t>(code)} | uint64_t{flags} << 8 | uint64_t{payload.size()} << 32);
    StoreAs(to + 8, number);
    StoreAs(to + 16, version);
    StoreAs(to + 24, slot.word());
    StoreAs(to + 32, time_us);
  }
  static absl::StatusOr<Reply> Decode(absl::string_view bytes);
  // Returns false if malformed; WhyNot() gives the reason. Inline, since every reply is decoded here.
  bool DecodeFrom(absl::string_view bytes) {
    if (bytes.size() < kHeaderBytes) return false;
    const char* const at = bytes.data();
    const uint64_t head = LoadAs<uint64_t>(at);
    if ((head & 0xff) >= kCodes || (head >> 16 & 0xffff) != 0 || head >> 32 != bytes.size() - kHeaderBytes)
      return false;
    code = static_cast<Code>(head & 0xff);
    flags = head >> 8 & 0xff;
    number = LoadAs<uint64_t>(at + 8);
    version = LoadAs<uint64_t>(at + 16);
    slot = Slot(LoadAs<uint64_t>(at + 24));
    time_us = LoadAs<uint64_t>(at + 32);
    payload = {at + kHeaderBytes, bytes.size() - kHeaderBytes};
    return true;
  }
  static absl::Status WhyNot(absl::string_view bytes);
};
inline constexpr size_t kMaxReplyPayloadBytes = kMaxMessageBytes - Reply::kHeaderBytes;

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_MESSAGE_H_
