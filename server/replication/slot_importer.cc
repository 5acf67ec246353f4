#include "server/replication/slot_importer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/wire/message.h"

namespace farlook::server {

using cluster::Record;

SlotImporter::Write::Write(const Record& of)
    : kind(of.kind),
      version(of.version),
      expires_ms(of.expires_ms),
      flags(of.flags),
      item_kind(of.item_kind),
      key(of.key),
      value(of.value),
      bytes(of.bytes()),
      covers{of.sequence} {}

// Carries no session or number: a client that wrote to the giver also retries there.
Record SlotImporter::Write::AsRecord() const {
  return {.kind = kind,
          .version = version,
          .expires_ms = expires_ms,
          .flags = flags,
          .item_kind = item_kind,
          .key = key,
          .value = value};
}

SlotImporter::~SlotImporter() {
  for (const uint64_t hash : begun_) parts_.gate->Leave(hash, keys_.at(hash).begun);
}

absl::Status SlotImporter::Take(std::string batch) {
  // The giver's epoch may change, e.g. when it adds a backup. Its stream is the same as long as it is primary.
  if (const auto epoch = cluster::EpochOf(batch); epoch.has_value()) stream_.EnterEpoch(*epoch, giver_);
  return stream_.Take(std::move(batch), parts_.time.At(parts_.clock->NowNs()), [this](const Record& record) {
    kept_bytes_ += record.bytes();
    return true;
  });
}

absl::Status SlotImporter::Cut(uint64_t to) {
  return absl::DataLossError(
      absl::StrCat("the giver has nothing after record ", to, ", and ", accepted_, " was taken"));
}

bool SlotImporter::Pump() {
  bool did = false;
  while (failed_.ok() && EndNext()) did = true;
  for (size_t i = stalled_.size(); i > 0 && failed_.ok(); --i) {
    const uint64_t hash = stalled_.front();
    stalled_.pop_front();
    did = Begin(hash, &keys_.at(hash)) || did;
  }
  while (failed_.ok() && stalled_.empty() && keys_.size() < kMostUnderWay && TakeNext()) did = true;
  return AppendVersions() || did;
}

// Takes the next record. False: there is none, or it cannot be taken yet.
bool SlotImporter::TakeNext() {
  const Record* const record = stream_.ToApply();
  if (record == nullptr) return false;
  const uint64_t hash = record->is_of_an_item() ? parts_.table->HashOf(record->key) : 0;
  const bool is_wanted = record->is_of_an_item() && slots_[kv::ClusterSlotOf(hash)];
  accepted_after_.push_back(false);
  if (is_wanted && !Add(*record, hash)) {
    accepted_after_.pop_back();
    return false;
  }
  // Versions of writes that a later record replaced count too: clients of the giver may have received them.
  if (record->kind == Record::Kind::kVersions || (is_wanted && record->kind == Record::Kind::kPut)) {
    if (record->version >= kv::kEndOfVersions) {
      failed_ = absl::DataLossError(absl::StrCat("version ", record->version, " is of no table"));
      return false;
    }
    parts_.gate->RaiseVersions(record->version);
    if (record->kind == Record::Kind::kVersions) Owe(record->version);
  }
  if (!is_wanted) {
    kept_bytes_ -= record->bytes();
    Accept(record->sequence);
  }
  stream_.Applied();
  return true;
}

// Adds a write. False: another key of this hash is under way.
bool SlotImporter::Add(const Record& record, uint64_t hash) {
  const auto [found, is_new] = keys_.try_emplace(hash);
  Key& key = found->second;
  if (is_new) {
    key.now = Write(record);
    Begin(hash, &key);
    return true;
  }
  if (key.now.key != record.key) return false;
  if (!key.next.has_value()) {
    key.next = Write(record);
    return true;
  }
  Write& next = *key.next;
  if (record.kind != Record::Kind::kTouch || next.kind == Record::Kind::kTouch) {
    kept_bytes_ -= next.bytes;
    if (next.kind == Record::Kind::kPut) Owe(next.version);
    std::vector<uint64_t> covers = std::move(next.covers);
    next = Write(record);
    next.covers = std::move(covers);
  } else {
    kept_bytes_ -= record.bytes();
    if (next.kind == Record::Kind::kPut) next.expires_ms = record.expires_ms;
  }
  next.covers.push_back(record.sequence);
  return true;
}

// Begins the key's write. False: it has stalled.
bool SlotImporter::Begin(uint64_t hash, Key* key) {
  const Record record = key->now.AsRecord();
  key->begun = parts_.gate->Adopt(hash, record, &key->asked);
  const kv::Code code = key->begun.outcome.code;
  if (code == kv::Code::kBusy || code == kv::Code::kMakingRoom) {
    stalled_.push_back(hash);
    return false;
  }
  if (code != kv::Code::kOk) {
    failed_ = absl::ResourceExhaustedError(
        absl::StrCat("this group's table has no room for a value of ", record.value.size(), " bytes"));
    return false;
  }
  if (key->begun.is_write) {
    begun_.push_back(hash);
  } else {
    Ended(hash);
  }
  return true;
}

bool SlotImporter::EndNext() {
  if (begun_.empty()) return false;
  const uint64_t hash = begun_.front();
  Key& key = keys_.at(hash);
  if (key.begun.sequence > parts_.gate->committed()) return false;
  if (!parts_.gate->End(hash, &key.begun, /*times=*/nullptr)) return false;
  begun_.pop_front();  // also if it failed: it must not become an errand
  if (key.begun.outcome.code != kv::Code::kOk) {
    failed_ = absl::ResourceExhaustedError("the index of this group's table has no room");
    return false;
  }
  if (key.now.kind == Record::Kind::kPut) ++items_;
  Ended(hash);
  return true;
}

// Accepts the records of the finished write, and queues the key's next one.
void SlotImporter::Ended(uint64_t hash) {
  const auto found = keys_.find(hash);
  Key& key = found->second;
  kept_bytes_ -= key.now.bytes;
  for (const uint64_t sequence : key.now.covers) Accept(sequence);
  if (!key.next.has_value()) {
    keys_.erase(found);
    return;
  }
  key.now = *std::move(key.next);
  key.next.reset();
  stalled_.push_back(hash);
}

void SlotImporter::Owe(uint64_t version) {
  if (owed_.empty() && versions_sequence_ == 0) confirmed_ = accepted_;
  owed_.insert(parts_.table->PartitionOfVersion(version));
}

// Appends the versions that the giver has used, so that no later primary of this group uses them again. Returns whether
// it did anything.
bool SlotImporter::AppendVersions() {
  if (versions_sequence_ != 0) {
    if (parts_.gate->committed() < versions_sequence_) return false;
    versions_sequence_ = 0;
    confirmed_ = confirmed_next_;
    return true;
  }
  uint64_t last = 0;
  while (!owed_.empty()) {
    kv::LockedPartition lock(parts_.locks->at(*owed_.begin()));
    const uint64_t sequence = parts_.gate->AppendVersions(*owed_.begin());
    if (sequence == 0) return last != 0;
    owed_.erase(owed_.begin());
    last = sequence;
  }
  if (last == 0) {
    const bool did = confirmed_ != accepted_;
    confirmed_ = accepted_;
    return did;
  }
  versions_sequence_ = last;
  confirmed_next_ = accepted_;
  return true;
}

void SlotImporter::Accept(uint64_t sequence) {
  accepted_after_[sequence - accepted_ - 1] = true;
  while (!accepted_after_.empty() && accepted_after_.front()) {
    accepted_after_.pop_front();
    ++accepted_;
  }
}

}  // namespace farlook::server
