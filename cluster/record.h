// The replication records that a primary sends to its backups, each a write with its outcome, in batches. All numbers
// are little-endian.
//
//   a batch:   0 checksum u64 | 8 epoch u64 | 16 primary u64 | 24 commit u64 | 32 first sequence u64 | 40 records u32 | 44 bytes u32
//              | 48 clock u64
//   a record:  0 session u64 | 8 number u64 | 16 told u64 | 24 version u64 | 32 expires u64 | 40 value bytes u32 | 44 key bytes u16
//              | 46 kind u8 | 47 outcome u8 | 48 item's flags u8 | 49 item's kind u8 | 50 zeros | 56 key | value
//              | zeros up to a multiple of 8
//
// The checksum is XXH3-64 of everything after it: a torn batch is rejected.
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
#include "kv/layout/item.h"
#include "kv/wire/message.h"

namespace farlook::cluster {

// Key and value are stored elsewhere: in the batch that it was received in, or in memory of its creator.
struct Record {
  enum class Kind : uint8_t {
    kPut = 1,
    kDelete = 2,
    kOutcome = 3,   // of a request that changed nothing: a later primary must give the same answer
    kSession = 4,   // a session that writes: `key` is its user, `version` the epoch that its client has confirmed
    kLost = 5,      // a session that wrote was forgotten; session 0: unspecified others were forgotten too
    kTouch = 6,     // a new expiry
    kVersions = 7,  // versions of its partition of the table are used up to `version`
  };

  uint64_t sequence = 0;  // 1, 2, ... in the life of a group, across epochs
  Kind kind = Kind::kPut;
  uint64_t session = 0, number = 0;  // of the request; 0: no request, as when an item expires
  kv::Code outcome = kv::Code::kOk;  // as in the reply
  uint64_t result = 0;               // likewise: a version, or a counter's value
  uint64_t version = 0;              // of a put's item; or as described for its kind
  // The expiry after a put or touch, in milliseconds; 0: never. On the clock of the process that holds the record: the
  // primary's in a batch; IncomingStream converts it to the backup's clock.
  uint64_t expires_ms = 0;
  uint8_t flags = 0;  // of a put's item
  kv::ItemKind item_kind = kv::ItemKind::kValue;
  absl::string_view key = {}, value = {};

  bool operator==(const Record&) const = default;
  size_t bytes() const;  // in a batch
  // Returns whether the record changes an item, whose key it contains.
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
  uint64_t first = 0;     // sequence of the first record; without records, of the next one
  uint32_t records = 0;   // number of records; their sequences are consecutive
  uint64_t clock_us = 0;  // the primary's clock before this was sent
};
// Encodes the head of a batch with these records.
std::array<char, kBatchHeadBytes> EncodeBatchHead(const BatchHead& head, absl::string_view records);

// The epoch in a batch's head, before the rest is verified; nothing: the batch is too short.
std::optional<uint64_t> EpochOf(absl::string_view batch);

struct Batch {
  BatchHead head;
  std::vector<Record> records = {};
};
// Decodes untrusted bytes, which must outlive the records: keys and values point into them. INVALID_ARGUMENT: torn,
// truncated, of an unknown kind, or not the record of any possible request.
absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_RECORD_H_
