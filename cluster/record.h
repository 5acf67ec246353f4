// What a primary tells its backups: records, each a write with its outcome, in batches. All numbers are little-endian.
//
//   a batch:   0 checksum u64 | 8 epoch u64 | 16 primary u64 | 24 commit u64 | 32 first sequence u64 | 40 records u32 | 44 bytes u32
//              | 48 clock u64
//   a record:  0 session u64 | 8 number u64 | 16 told u64 | 24 version u64 | 32 expires u64 | 40 value bytes u32 | 44 key bytes u16
//              | 46 kind u8 | 47 outcome u8 | 48 item's flags u8 | 49 item's kind u8 | 50 zeros | 56 key | value
//              | zeros up to a multiple of 8
//
// The checksum is XXH3-64 of all after it: a batch that arrived torn is none.
#ifndef FARLOOK_CLUSTER_RECORD_H_
#define FARLOOK_CLUSTER_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/item.h"
#include "kv/message.h"

namespace farlook::cluster {

// Its key and value lie elsewhere: in the batch that it came in, or where whoever makes it has them.
struct Record {
  enum class Kind : uint8_t {
    kPut = 1,
    kDelete = 2,
    kOutcome = 3,   // of a request that changed nothing: it must be answered the same by who comes after
    kSession = 4,   // a session that writes: `key` is its user, `version` the epoch that its client has shown to know
    kLost = 5,      // a session that wrote is not known any more; session 0: nor are others, whichever they are
    kTouch = 6,     // another expiry
    kVersions = 7,  // up to `version` those of its partition of the table are used
  };

  uint64_t sequence = 0;  // 1, 2, ... in the life of a group, across epochs
  Kind kind = Kind::kPut;
  uint64_t session = 0, number = 0;  // of the request; 0: nobody's, as when an item expires
  kv::Code outcome = kv::Code::kOk;  // as in the reply
  uint64_t told = 0;                 // likewise: a version, or a counter's value
  uint64_t version = 0;              // of a put's item; or as its kind says
  // Of what a put or touch leaves, in milliseconds; 0: never. On the clock of whoever holds the record: the primary's
  // in a batch, and what takes it (IncomingStream) makes a time of its own clock of it.
  uint64_t expires_ms = 0;
  uint8_t flags = 0;  // of a put's item
  kv::ItemKind item_kind = kv::ItemKind::kValue;
  absl::string_view key = {}, value = {};

  bool operator==(const Record&) const = default;
  size_t bytes() const;  // in a batch
  // Whether it says what becomes of an item, whose key it has.
  bool is_of_an_item() const { return kind == Kind::kPut || kind == Kind::kDelete || kind == Kind::kTouch; }
};

// Writes record.bytes() bytes.
void EncodeRecord(const Record& record, char* to);
size_t BytesOf(absl::Span<const Record> records);

inline constexpr size_t kBatchHeadBytes = 56;

struct BatchHead {
  uint64_t epoch = 0;
  uint64_t primary = 0;   // its incarnation
  uint64_t commit = 0;    // all members accepted the records up to this sequence
  uint64_t first = 0;     // sequence of the first record; where there is none, of the next one
  uint32_t records = 0;   // how many there are; their sequences follow each other
  uint64_t clock_us = 0;  // what the primary's clock showed before this was sent
};
// What stands before these records of a batch.
std::array<char, kBatchHeadBytes> EncodeBatchHead(const BatchHead& head, absl::string_view records);

// The epoch that a batch says it is of, before anything is known of the rest; nothing: it is too short to say.
std::optional<uint64_t> EpochOf(absl::string_view batch);

struct Batch {
  BatchHead head;
  std::vector<Record> records = {};
};
// Of untrusted bytes, in which the records' keys and values stay. INVALID_ARGUMENT: torn, cut short, of no known kind,
// or of no request that there can be.
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_RECORD_H_
