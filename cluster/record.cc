#include "cluster/record.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"

namespace farlook::cluster {
namespace {

constexpr size_t kRecordHeadBytes = 56;
// In a batch's head: the number of records, and their length in bytes.
constexpr size_t kRecordsOffset = 40, kRecordBytesOffset = 44;

size_t Padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

// The checksum of the rest of a batch's head and of the records.
uint64_t Checksum(absl::string_view head, absl::string_view records) {
  static const kv::Hasher hasher(0);
  return hasher(head.substr(sizeof(uint64_t)), records);
}

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("batch of records: ", what));
}

bool IsOfAKey(Record::Kind kind) {
  return kind == Record::Kind::kPut || kind == Record::Kind::kDelete || kind == Record::Kind::kTouch;
}

absl::Status CheckItem(const Record& record) {
  if (record.kind != Record::Kind::kPut &&
      (!record.value.empty() || record.flags != 0 || record.item_kind != kv::ItemKind::kValue)) {
    return Bad("an item where there is none");
  }
  if (record.kind != Record::Kind::kPut && record.kind != Record::Kind::kTouch && record.expires_ms != 0) {
    return Bad("an expiry of nothing");
  }
  if (record.expires_ms > kv::kExpiryTimeMask) return Bad("an impossible time");
  if ((record.flags & ~kv::kKeepItem) != 0) return Bad(absl::StrCat("flags ", record.flags));
  if (record.item_kind != kv::ItemKind::kValue && record.item_kind != kv::ItemKind::kCounter) {
    return Bad(absl::StrCat("an item of kind ", static_cast<int>(record.item_kind)));
  }
  if (record.item_kind == kv::ItemKind::kCounter && record.value.size() != sizeof(int64_t)) {
    return Bad(absl::StrCat("a counter of ", record.value.size(), " bytes"));
  }
  if (record.value.size() > kv::kMaxValueBytes) return Bad("a value is too long");
  return absl::OkStatus();
}

// Code that applies a record relies on these checks.
absl::Status Check(const Record& record) {
  if (static_cast<uint8_t>(record.outcome) >= kv::kCodes) {
    return Bad(absl::StrCat("outcome ", static_cast<int>(record.outcome)));
  }
  if (record.session == 0 && record.number != 0) return Bad("a request of no session");
  if (absl::Status status = CheckItem(record); !status.ok()) return status;
  const size_t most_key = IsOfAKey(record.kind)                   ? kv::kMaxKeyBytes
                          : record.kind == Record::Kind::kSession ? kv::kMaxUserBytes
                                                                  : 0;
  if (record.key.size() > most_key || (IsOfAKey(record.kind) && record.key.size() < kv::kMinKeyBytes)) {
    return Bad(absl::StrCat("a key of ", record.key.size(), " bytes"));
  }
  if (record.kind == Record::Kind::kSession && (record.session == 0 || record.version > UINT32_MAX)) {
    return Bad("an impossible session");
  }
  if (record.kind == Record::Kind::kVersions && (record.session != 0 || record.version == 0)) {
    return Bad("versions of a session, or none");
  }
  return absl::OkStatus();
}

// Decodes a record from the beginning of `bytes` and removes it from there.
absl::StatusOr<Record> TakeRecord(absl::string_view* bytes) {
  if (bytes->size() < kRecordHeadBytes) return Bad("a record is cut short");
  const char* const head = bytes->data();
  const size_t value_bytes = kv::LoadAs<uint32_t>(head + 40), key_bytes = kv::LoadAs<uint16_t>(head + 44);
  const uint8_t kind = kv::LoadAs<uint8_t>(head + 46);
  const size_t all = Padded(kRecordHeadBytes + key_bytes + value_bytes);
  if (all > bytes->size()) return Bad("a record is cut short");
  if (kind < 1 || kind > static_cast<uint8_t>(Record::Kind::kVersions)) return Bad(absl::StrCat("kind ", kind));
  Record record{.kind = static_cast<Record::Kind>(kind),
                .session = kv::LoadAs<uint64_t>(head),
                .number = kv::LoadAs<uint64_t>(head + 8),
                .outcome = static_cast<kv::Code>(kv::LoadAs<uint8_t>(head + 47)),
                .result = kv::LoadAs<uint64_t>(head + 16),
                .version = kv::LoadAs<uint64_t>(head + 24),
                .expires_ms = kv::LoadAs<uint64_t>(head + 32),
                .flags = kv::LoadAs<uint8_t>(head + 48),
                .item_kind = static_cast<kv::ItemKind>(kv::LoadAs<uint8_t>(head + 49)),
                .key = bytes->substr(kRecordHeadBytes, key_bytes),
                .value = bytes->substr(kRecordHeadBytes + key_bytes, value_bytes)};
  const absl::string_view rest =
      bytes->substr(kRecordHeadBytes + key_bytes + value_bytes, all - kRecordHeadBytes - key_bytes - value_bytes);
  const auto zeros = [](absl::string_view of) {
    return std::all_of(of.begin(), of.end(), [](char c) { return c == 0; });
  };
  if (!zeros(rest) || !zeros(bytes->substr(50, kRecordHeadBytes - 50))) return Bad("padding is not zero");
  if (absl::Status status = Check(record); !status.ok()) return status;
  bytes->remove_prefix(all);
  return record;
}

}  // namespace

size_t Record::bytes() const { return Padded(kRecordHeadBytes + key.size() + value.size()); }

size_t BytesOf(absl::Span<const Record> records) {
  size_t bytes = 0;
  for (const Record& record : records) bytes += record.bytes();
  return bytes;
}

void EncodeRecord(const Record& record, char* to) {
  kv::StoreAs(to, record.session);
  kv::StoreAs(to + 8, record.number);
  kv::StoreAs(to + 16, record.result);
  kv::StoreAs(to + 24, record.version);
  kv::StoreAs(to + 32, record.expires_ms);
  kv::StoreAs(to + 40, static_cast<uint32_t>(record.value.size()));
  kv::StoreAs(to + 44, static_cast<uint16_t>(record.key.size()));
  kv::StoreAs(to + 46, static_cast<uint8_t>(record.kind));
  kv::StoreAs(to + 47, static_cast<uint8_t>(record.outcome));
  kv::StoreAs(to + 48, uint64_t{record.flags} | uint64_t{static_cast<uint8_t>(record.item_kind)} << 8);
  char* const end = to + record.bytes();
  to = std::copy(record.key.begin(), record.key.end(), to + kRecordHeadBytes);
  to = std::copy(record.value.begin(), record.value.end(), to);
  std::fill(to, end, '\0');
}

std::array<char, kBatchHeadBytes> EncodeBatchHead(const BatchHead& head, absl::string_view records) {
  std::array<char, kBatchHeadBytes> bytes;
  char* const to = bytes.data();
  kv::StoreAs(to + 8, head.epoch);
  kv::StoreAs(to + 16, head.primary);
  kv::StoreAs(to + 24, head.commit);
  kv::StoreAs(to + 32, head.first);
  kv::StoreAs(to + kRecordsOffset, head.records);
  kv::StoreAs(to + kRecordBytesOffset, static_cast<uint32_t>(records.size()));
  kv::StoreAs(to + 48, head.clock_us);
  kv::StoreAs(to, Checksum({bytes.data(), bytes.size()}, records));
  return bytes;
}

std::optional<uint64_t> EpochOf(absl::string_view batch) {
  if (batch.size() < kBatchHeadBytes) return std::nullopt;
  return kv::LoadAs<uint64_t>(batch.data() + 8);
}

absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes) {
  if (bytes.size() < kBatchHeadBytes) return Bad("cut short");
  const char* const from = bytes.data();
  absl::string_view rest = bytes.substr(kBatchHeadBytes);
  if (kv::LoadAs<uint64_t>(from) != Checksum(bytes.substr(0, kBatchHeadBytes), rest)) return Bad("torn");
  Batch batch;
  batch.head = {.epoch = kv::LoadAs<uint64_t>(from + 8),
                .primary = kv::LoadAs<uint64_t>(from + 16),
                .commit = kv::LoadAs<uint64_t>(from + 24),
                .first = kv::LoadAs<uint64_t>(from + 32),
                .records = kv::LoadAs<uint32_t>(from + kRecordsOffset),
                .clock_us = kv::LoadAs<uint64_t>(from + 48)};
  const BatchHead& head = batch.head;
  if (rest.size() != kv::LoadAs<uint32_t>(from + kRecordBytesOffset)) return Bad("its length does not match");
  if (head.clock_us > kv::kExpiryTimeMask * 1000) return Bad("an impossible time");
  if (head.first == 0 || head.first + head.records < head.first) return Bad("a sequence is out of range");
  batch.records.reserve(std::min<size_t>(head.records, rest.size() / kRecordHeadBytes));
  for (uint32_t i = 0; i < head.records; ++i) {
    absl::StatusOr<Record> record = TakeRecord(&rest);
    if (!record.ok()) return record.status();
    record->sequence = head.first + i;
    batch.records.push_back(*record);
  }
  if (!rest.empty()) return Bad("there is more than its records");
  return batch;
}

}  // namespace farlook::cluster
