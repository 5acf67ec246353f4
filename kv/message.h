// What client and server say to each other. All integers are little-endian; docs/protocol.md draws every byte.
//
// Handshake (private data of the connection):   Hello  ->            <- Welcome, or a reject whose text is the reason
// Then, one SEND each:                          Request (32 bytes, key, value)  ->     <- Reply (32 bytes, payload)
//
// Every decoder takes untrusted bytes and returns a view into them or a reason.
#ifndef FARLOOK_KV_MESSAGE_H_
#define FARLOOK_KV_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/limits.h"
#include "kv/slot.h"

namespace farlook::kv {

inline constexpr uint32_t kHandshakeMagic = 0x4b4c5246;  // "FRLK"
inline constexpr uint16_t kProtocolVersion = 1;

// Client to server, with the connection request.
//      0 magic u32 | 4 version u16 | 6 bytes u16, this message's own length | 8 flags u32 | 12 epoch u32
//     16 session u64 | 24 incarnation u64 | 32 acknowledged u64
struct Hello {
  static constexpr size_t kBytes = 40;
  enum Flags : uint32_t { kReadOnly = 1 };

  uint32_t flags = 0;
  uint64_t session = 0;       // to resume, or 0 for a new one
  uint32_t epoch = 0;         // of the session as the client knows it
  uint64_t incarnation = 0;   // that the session belongs to
  uint64_t acknowledged = 0;  // every request up to this number has its answer

  std::string Encode() const;
  // INVALID_ARGUMENT: not a Farlook client. FAILED_PRECONDITION: one of another protocol version. The message can be
  // sent as reason of the reject.
  static absl::StatusOr<Hello> Decode(absl::string_view bytes);
};

// A range of the server's memory as the client's transport names it.
struct WireRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
};

// Server to client, with the accept.
//      0 magic u32 | 4 version u16 | 6 bytes u16 | 8 flags u32 | 12 epoch u32 | 16 session u64 | 24 incarnation u64
//     32 window u32 | 36 table rkey u32 | 40 table address u64 | 48 table bytes u64
//     56 counters rkey u32 | 60 zero u32 | 64 counters address u64 | 72 counters bytes u64 | 80 max value bytes u64
struct Welcome {
  static constexpr size_t kBytes = 88;
  enum Flags : uint32_t { kResumed = 1, kReadOnly = 2 };

  uint32_t flags = 0;
  uint64_t session = 0;
  uint32_t epoch = 0;  // grows at each resumption
  uint64_t incarnation = 0;
  uint32_t window = 0;  // W: requests that may be without an answer at once
  WireRange table;
  WireRange counters;    // rkey 0: none
  uint32_t atomics = 0;  // that the client may have in flight there, from 1 on where there is a key
  uint64_t max_value_bytes = 0;

  std::string Encode() const;
  static absl::StatusOr<Welcome> Decode(absl::string_view bytes);
};

enum class RequestType : uint8_t {
  kPut = 1,        // key and value in the message
  kPutPulled = 2,  // key, then a ValueSource: the server READs the value
  kDelete = 3,
  kGet = 4,  // the fallback of a reader that was overtaken by writers too often
  kPing = 5,
  kStat = 6,  // "key" names what; the payload is text, one "name value" a line

  // Of counters. Replies: `version` is the value that the counter had before, `slot` the offset of its cell, or 0.
  kCounterCreate = 7,  // operand: the first value; kExists if the key is present
  kCounterAdd = 8,     // operand: what to add
  kCounterSwap = 9,    // operand: expected; desired. kOk also when the counter has another value, which is the reply's
  kCounterRead = 10,
  kCounterDelete = 11,
  kCellsDropped = 12,  // the answer to a CellNotice (cell_notice.h), whose sequence is the operand; number 0, no reply
};

constexpr bool IsCounterRequest(RequestType type) {
  return type >= RequestType::kCounterCreate && type <= RequestType::kCounterDelete;
}

// When a write applies. Otherwise it changes nothing and says so.
enum class Condition : uint8_t {
  kAlways = 0,
  kAbsent = 1,   // only if the key is absent, else kExists
  kPresent = 2,  // only if it is present, else kNotFound
  kVersion = 3,  // only if its version is Request::version, else kVersionMismatch, or kNotFound
};

// Where the server pulls a value from.
//      0 address u64 | 8 hash u64, of the value, by the region's Hasher | 16 rkey u32 | 20 zero u32
struct ValueSource {
  static constexpr size_t kBytes = 24;
  uint64_t address = 0;  // a multiple of 8
  uint64_t hash = 0;
  uint32_t rkey = 0;
};

// Requests are numbered from 1 within a session. A request sent again bears the same number and the same contents, but
// for the rkey of a ValueSource, which is that of the connection.
//      0 type u8 | 1 condition u8 | 2 key bytes u16 | 4 value bytes u32 | 8 number u64 | 16 version u64 | 24 zero u64
//     32 key | value, or ValueSource at the next multiple of 8 after the key
// Of counters: 16 operand i64 | 24 desired i64.
struct Request {
  static constexpr size_t kHeaderBytes = 32;

  RequestType type = RequestType::kPing;
  Condition condition = Condition::kAlways;
  uint64_t number = 0;
  uint64_t version = 0;      // for kVersion
  absl::string_view key;     // 1..1,024 bytes for kPut, kPutPulled, kDelete, kGet, counters; else any
  uint32_t value_bytes = 0;  // kPut: value.size(); kPutPulled: what is to be pulled
  absl::string_view value;   // kPut
  ValueSource source;        // kPutPulled
  int64_t operand = 0;       // of counters, instead of version
  int64_t desired = 0;       // kCounterSwap

  // Header, key (padded for kPutPulled) and source; a kPut's value is to follow. `to` has room for
  // kMaxRequestHeadBytes. Returns how many bytes that is.
  size_t EncodeHead(char* to) const;
  static absl::StatusOr<Request> Decode(absl::string_view bytes);
};
inline constexpr size_t kMaxRequestHeadBytes = Request::kHeaderBytes + kMaxKeyBytes + ValueSource::kBytes;
static_assert(kMaxRequestHeadBytes <= kMaxMessageBytes);

// Whether key and value of a kPut fit in one message.
constexpr bool FitsInMessage(uint64_t key_bytes, uint64_t value_bytes) {
  return Request::kHeaderBytes + key_bytes + value_bytes <= kMaxMessageBytes;
}

// What became of a request. In parentheses the absl code a client reports.
enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,         // the key is absent (NOT_FOUND)
  kExists = 2,           // Condition::kAbsent, but present; version is the present one (ALREADY_EXISTS)
  kVersionMismatch = 3,  // version is the present one (ABORTED)
  kNoMemory = 4,         // the region is full (RESOURCE_EXHAUSTED)
  kIndexFull = 5,        // too many keys whose hashes collide (RESOURCE_EXHAUSTED)
  kTooLarge = 6,         // value above the server's limit (INVALID_ARGUMENT)
  kReadOnly = 7,         // a read-only client may not write (PERMISSION_DENIED)
  kBadValue = 8,         // the pulled value's hash does not fit, or it could not be pulled (DATA_LOSS)
  kOutcomeUnknown = 9,   // below the floor of remembered replies (UNKNOWN)
  kWrongKind = 10,       // a counter where a value was asked for, or the reverse (FAILED_PRECONDITION)
  kShuttingDown = 11,    // not executed (UNAVAILABLE)
  kOutOfRange = 12,      // a counter is, or would get, outside its range; version is its value (OUT_OF_RANGE)
};
inline constexpr int kCodes = 13;
absl::string_view CodeName(Code code);

//      0 code u8 | 1 zero u8 | 2 zero u16 | 4 payload bytes u32 | 8 number u64 | 16 version u64 | 24 slot u64
//     32 payload
struct Reply {
  static constexpr size_t kHeaderBytes = 32;

  Code code = Code::kOk;
  uint64_t number = 0;
  uint64_t version = 0;       // of the item now there, where the request learnt it
  Slot slot;                  // where it lies
  absl::string_view payload;  // kGet: the value if it fits in a message (else empty, and slot says where); kStat: text

  // The header for a payload of payload.size() bytes. `to` has room for kHeaderBytes.
  void EncodeHead(char* to) const;
  static absl::StatusOr<Reply> Decode(absl::string_view bytes);
};
inline constexpr size_t kMaxReplyPayloadBytes = kMaxMessageBytes - Reply::kHeaderBytes;

}  // namespace farlook::kv

#endif  // FARLOOK_KV_MESSAGE_H_
