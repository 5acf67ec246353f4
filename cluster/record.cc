#include "cluster/record.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/expiry_word.h"
#include "kv/handshake.h"
#include "kv/hash.h"
#include "kv/item.h"
#include "kv/limits.h"
#include "kv/message.h"
#include "kv/words.h"

namespace farlook::cluster {
namespace {

constexpr size_t kRecordHeadBytes = 56;
// In a batch's head: how many records, and how many bytes of them.
constexpr size_t kRecordsOffset = 40, kRecordBytesOffset = 44;

template <typename T>
void Put(T number, std::string* bytes) {
  char raw[sizeof number];
  kv::StoreAs(raw, number);
  bytes->append(raw, sizeof raw);
}

size_t Padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

uint64_t Checksum(absl::string_view bytes) {
  static const kv::Hasher hasher(0);
  return hasher(bytes);
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

// Who takes a record in may rely on this.
absl::Status Check(const Record& record) {
  if (record.outcome >= kv::kCodes) return Bad(absl::StrCat("outcome ", record.outcome));
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

// Takes a record off `bytes`.
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
                .outcome = kv::LoadAs<uint8_t>(head + 47),
                .told = kv::LoadAs<uint64_t>(head + 16),
                .version = kv::LoadAs<uint64_t>(head + 24),
                .expires_ms = kv::LoadAs<uint64_t>(head + 32),
                .flags = kv::LoadAs<uint8_t>(head + 48),
                .item_kind = static_cast<kv::ItemKind>(kv::LoadAs<uint8_t>(head + 49)),
                .key = std::string(bytes->substr(kRecordHeadBytes, key_bytes)),
                .value = std::string(bytes->substr(kRecordHeadBytes + key_bytes, value_bytes))};
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

BatchEncoder::BatchEncoder(const Batch& head, size_t record_bytes) {
  bytes_.reserve(kBatchHeadBytes + record_bytes);
  Put(uint64_t{0}, &bytes_);  // the checksum; then what is known in the end
  Put(head.epoch, &bytes_);
  Put(head.primary, &bytes_);
  Put(head.commit, &bytes_);
  Put(head.first, &bytes_);
  Put(uint64_t{0}, &bytes_);
  Put(head.clock_us, &bytes_);
}

void BatchEncoder::Add(const Record& record) {
  ++records_;
  Put(record.session, &bytes_);
  Put(record.number, &bytes_);
  Put(record.told, &bytes_);
  Put(record.version, &bytes_);
  Put(record.expires_ms, &bytes_);
  Put(static_cast<uint32_t>(record.value.size()), &bytes_);
  Put(static_cast<uint16_t>(record.key.size()), &bytes_);
  Put(static_cast<uint8_t>(record.kind), &bytes_);
  Put(record.outcome, &bytes_);
  Put(uint64_t{record.flags} | uint64_t{static_cast<uint8_t>(record.item_kind)} << 8, &bytes_);
  bytes_ += record.key;
  bytes_ += record.value;
  bytes_.resize(Padded(bytes_.size()));
}

std::string BatchEncoder::Finish() && {
  kv::StoreAs(bytes_.data() + kRecordsOffset, records_);
  kv::StoreAs(bytes_.data() + kRecordBytesOffset, static_cast<uint32_t>(bytes_.size() - kBatchHeadBytes));
  kv::StoreAs(bytes_.data(), Checksum(absl::string_view(bytes_).substr(sizeof(uint64_t))));
  return std::move(bytes_);
}

std::string EncodeBatch(const Batch& batch) {
  size_t record_bytes = 0;
  for (const Record& record : batch.records) record_bytes += record.bytes();
  BatchEncoder encoder(batch, record_bytes);
  for (const Record& record : batch.records) encoder.Add(record);
  return std::move(encoder).Finish();
}

std::optional<uint64_t> EpochOf(absl::string_view batch) {
  if (batch.size() < kBatchHeadBytes) return std::nullopt;
  return kv::LoadAs<uint64_t>(batch.data() + 8);
}

absl::StatusOr<Batch> DecodeBatch(absl::string_view bytes) {
  if (bytes.size() < kBatchHeadBytes) return Bad("cut short");
  if (kv::LoadAs<uint64_t>(bytes.data()) != Checksum(bytes.substr(sizeof(uint64_t)))) return Bad("torn");
  const char* const head = bytes.data();
  Batch batch{.epoch = kv::LoadAs<uint64_t>(head + 8),
              .primary = kv::LoadAs<uint64_t>(head + 16),
              .commit = kv::LoadAs<uint64_t>(head + 24),
              .first = kv::LoadAs<uint64_t>(head + 32),
              .clock_us = kv::LoadAs<uint64_t>(head + 48)};
  const uint32_t records = kv::LoadAs<uint32_t>(head + kRecordsOffset);
  bytes.remove_prefix(kBatchHeadBytes);
  if (bytes.size() != kv::LoadAs<uint32_t>(head + kRecordBytesOffset)) return Bad("its length is not what it says");
  if (batch.clock_us > kv::kExpiryTimeMask * 1000) return Bad("an impossible time");
  if (batch.first == 0 || batch.first + records < batch.first) return Bad("a sequence is out of range");
  batch.records.reserve(std::min<size_t>(records, bytes.size() / kRecordHeadBytes));
  for (uint32_t i = 0; i < records; ++i) {
    absl::StatusOr<Record> record = TakeRecord(&bytes);
    if (!record.ok()) return record.status();
    record->sequence = batch.first + i;
    batch.records.push_back(*std::move(record));
  }
  if (!bytes.empty()) return Bad("there is more than its records");
  return batch;
}

}  // namespace farlook::cluster
