#include "server/backup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/message.h"
#include "kv/words.h"

namespace farlook::server {

using cluster::Record;

Backup::Backup(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, uint64_t epoch,
               uint64_t primary, uint64_t accepted)
    : table_(table), locks_(locks), clock_(clock), time_(time), stream_(epoch, primary, accepted) {}

absl::Status Backup::Take(std::string batch) {
  if (!failed_.ok()) return failed_;
  now_ns_ = clock_->NowNs();
  const absl::Status taken =
      stream_.Take(std::move(batch), time_.At(now_ns_), [this](const Record& record) { return Reserve(record); });
  absl::Status applied = ApplyCommitted();
  held_.Release();
  if (failed_.ok() && absl::IsResourceExhausted(taken)) failed_ = taken;
  if (!failed_.ok()) return failed_;
  return applied.ok() ? taken : applied;
}

absl::Status Backup::Cut(uint64_t to) {
  if (to < stream_.committed()) {
    return failed_ = absl::DataLossError(absl::StrCat("the primary has nothing after record ", to, ", and record ",
                                                      stream_.committed(), " was committed"));
  }
  while (stream_.accepted() > to) {
    if (stream_.tail().back().kind == Record::Kind::kPut) {
      const kv::Reservation& reservation = reserved_.back();
      held_.Take(locks_->of(reservation.hash));
      table_->Abandon(reservation);
      reserved_.pop_back();
    }
    stream_.CutNewest();
  }
  held_.Release();
  return absl::OkStatus();
}

absl::Status Backup::Promote() {
  now_ns_ = clock_->NowNs();
  stream_.CommitAll();
  absl::Status applied = ApplyCommitted();
  while (UseAside()) continue;
  held_.Release();
  if (!applied.ok() || unplaced_.empty()) return applied;
  return failed_ = absl::ResourceExhaustedError(
             absl::StrCat("the index has no place for ", unplaced_.size(), " keys: the table must be filled anew"));
}

uint64_t Backup::aside_bytes() const {
  uint64_t bytes = 0;
  for (const kv::Reservation& piece : set_aside_) bytes += piece.slot.bytes();
  return bytes;
}

absl::Status Backup::ApplyCommitted() {
  while (const Record* const record = stream_.ToApply()) {
    if (absl::Status applied = Apply(*record); !applied.ok()) return failed_ = applied;
    stream_.Applied();
  }
  return absl::OkStatus();
}

// Sets as much aside. False: there is no memory.
bool Backup::SetAside(size_t pieces) {
  while (set_aside_.size() > pieces + kLeastAside) UseAside();
  while (set_aside_.size() < pieces) {
    kv::Reservation piece;
    kv::Code code = kv::Code::kMakingRoom;
    while (code == kv::Code::kMakingRoom) {
      held_.Take(locks_->at(0));
      code = table_->Reserve(/*hash=*/0, "aside", kAsideBytes, &piece, now_ns_);
      if (code == kv::Code::kMakingRoom) held_.Release();
    }
    if (code != kv::Code::kOk) return false;
    set_aside_.push_back(piece);
  }
  return true;
}

// Gives some of it to who lacks memory. False: there is none.
bool Backup::UseAside() {
  if (set_aside_.empty()) return false;
  held_.Take(locks_->of(set_aside_.back().hash));
  table_->Abandon(set_aside_.back());
  set_aside_.pop_back();
  return true;
}

kv::Code Backup::Copy(const Record& record, uint64_t hash) {
  kv::Reservation reservation;
  kv::Code code = kv::Code::kMakingRoom;
  // The compactor gives up after 10,000 calls for one piece, and the heap's spare is copied home in 64. Who is told for
  // longer that there will be room waits for what lies in the spare to be published: that is one of these reservations,
  // and nobody else publishes it. In vain they take some 10 ms.
  constexpr int kMostTries = 20'000;
  for (int tries = 0; code == kv::Code::kMakingRoom; ++tries) {
    if (tries == kMostTries) return kv::Code::kNoMemory;
    held_.Take(locks_->of(hash));
    code = table_->ReserveCopy(hash, record.key, record.value.size(), record.version, &reservation, now_ns_,
                               record.flags, record.item_kind);
    if (code == kv::Code::kMakingRoom) held_.Release();
  }
  if (code != kv::Code::kOk) return code;
  kv::StoreBytes(reservation.value.data(), record.value.data(), record.value.size());
  reserved_.push_back(reservation);
  return code;
}

// Room for the record. False: there is none, or `failed_`. What is committed already may be what makes some.
bool Backup::Reserve(const Record& record) {
  const size_t aside = kLeastAside + reserved_.size() / kPutsForEach;
  if (!SetAside(aside) && (!ApplyCommitted().ok() || !SetAside(aside))) return false;
  if (record.kind == Record::Kind::kVersions && record.version >= kv::kEndOfVersions && failed_.ok()) {
    failed_ =
        absl::DataLossError(absl::StrCat("record ", record.sequence, ": version ", record.version, " is of no table"));
  }
  if (!failed_.ok()) return false;
  if (record.kind != Record::Kind::kPut) return true;
  const uint64_t hash = table_->HashOf(record.key);
  kv::Code code = Copy(record, hash);
  if (code == kv::Code::kNoMemory && ApplyCommitted().ok()) code = Copy(record, hash);
  if (code == kv::Code::kOk) return true;
  if (code != kv::Code::kNoMemory && failed_.ok()) {
    failed_ = absl::DataLossError(absl::StrCat("record ", record.sequence, ": version ", record.version, " and ",
                                               record.value.size(), " bytes of value are of no table like this one (",
                                               kv::CodeName(code), ")"));
  }
  return false;
}

// Of a put, the first that is reserved.
kv::Code Backup::Publish(const Record& record) {
  const kv::Reservation& reservation = reserved_.front();
  held_.Take(locks_->of(reservation.hash));
  kv::PutParams params;
  params.expiry_ms = record.expires_ms;
  return table_->Publish(reservation, params, now_ns_).code;
}

absl::Status Backup::Apply(const Record& record) {
  kv::Code code = kv::Code::kOk;
  switch (record.kind) {
    case Record::Kind::kPut:
      // A reservation whose publishing fails for want of memory is gone, and made again of what was set aside.
      while ((code = Publish(record)) != kv::Code::kOk) {
        if (code == kv::Code::kMakingRoom) {
          held_.Release();
          continue;
        }
        reserved_.pop_front();
        if (code != kv::Code::kNoMemory || !UseAside()) break;
        if (code = Copy(record, table_->HashOf(record.key)); code != kv::Code::kOk) break;
        reserved_.push_front(reserved_.back());
        reserved_.pop_back();
      }
      if (code == kv::Code::kOk) {
        reserved_.pop_front();
        if (!unplaced_.empty()) unplaced_.erase(record.key);
      } else if (code == kv::Code::kIndexFull) {
        unplaced_.emplace(record.key);
        code = kv::Code::kOk;
      }
      break;
    case Record::Kind::kDelete: {
      const uint64_t hash = table_->HashOf(record.key);
      held_.Take(locks_->of(hash));
      code = table_->Erase(hash, record.key, /*has_expired=*/record.session == 0, now_ns_).code;
      if (code == kv::Code::kNotFound) code = kv::Code::kOk;  // a write of it was undone
      if (!unplaced_.empty()) unplaced_.erase(record.key);
      break;
    }
    case Record::Kind::kTouch: {
      const uint64_t hash = table_->HashOf(record.key);
      held_.Take(locks_->of(hash));
      code = table_->Touch(hash, record.key, record.expires_ms, now_ns_).code;
      if (code == kv::Code::kNotFound) code = kv::Code::kOk;  // a joiner's copy is yet to come, and says this too
      break;
    }
    case Record::Kind::kSession:
      outcomes_.NoteSession(record.session, record.key, static_cast<uint32_t>(record.version));
      return absl::OkStatus();
    case Record::Kind::kLost:
      outcomes_.NoteLost(record.session);
      return absl::OkStatus();
    case Record::Kind::kVersions: {
      held_.Take(locks_->at(table_->PartitionOfVersion(record.version)));
      table_->RaiseVersions(record.version);
      return absl::OkStatus();
    }
    case Record::Kind::kOutcome:
      break;
  }
  if (code != kv::Code::kOk) {
    return absl::ResourceExhaustedError(absl::StrCat("record ", record.sequence, " finds no place in the index (",
                                                     kv::CodeName(code), "): the table must be filled anew"));
  }
  if (record.session != 0) {
    outcomes_.Note(record.session, {record.number, record.outcome, record.told});
  }
  return absl::OkStatus();
}

}  // namespace farlook::server
