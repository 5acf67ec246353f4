#include "server/replication/backup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/words.h"
#include "kv/wire/message.h"

namespace farlook::server {

using cluster::Record;

Backup::Backup(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, uint64_t epoch,
               uint64_t primary, uint64_t accepted)
    : table_(table),
      locks_(locks),
      clock_(clock),
      time_(time),
      stream_(epoch, primary, accepted),
      room_(table->RoomForCopies()) {}

absl::Status Backup::Take(std::string batch) {
  if (!failed_.ok()) return failed_;
  now_ns_ = clock_->NowNs();
  waits_ = false;
  absl::Status taken =
      stream_.Take(std::move(batch), time_.At(now_ns_), [this](const Record& record) { return Reserve(record); });
  absl::Status applied = ApplyCommitted();
  held_.Release();
  room_ = waits_ ? kv::Room{0, 0} : table_->RoomForCopies();
  if (absl::IsResourceExhausted(taken)) {
    if (waits_) {
      taken = absl::OkStatus();
    } else if (failed_.ok()) {
      failed_ = taken;
    }
  }
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
  table_->SetAsideForIndex(0, /*partition=*/0, now_ns_);
  held_.Release();
  if (!applied.ok() || unplaced_.empty()) return applied;
  return failed_ = absl::ResourceExhaustedError(
             absl::StrCat("the index has no place for ", unplaced_.size(), " keys: the table must be filled again"));
}

absl::Status Backup::ApplyCommitted() {
  while (const Record* const record = stream_.ToApply()) {
    if (absl::Status applied = Apply(*record); !applied.ok()) return failed_ = applied;
    stream_.Applied();
  }
  return absl::OkStatus();
}

kv::Code Backup::Copy(const Record& record, uint64_t hash, kv::Reach reach) {
  kv::Reservation reservation;
  kv::Code code = kv::Code::kMakingRoom;
  // Bounds the wait for room. The compactor gives up after 10,000 calls for one piece, and the heap's spare is copied
  // home in 64. The unsuccessful tries take about 10 ms.
  constexpr int kMostTries = 20'000;
  for (int tries = 0; code == kv::Code::kMakingRoom; ++tries) {
    // The spare has an item that only this thread publishes.
    if (tries == kMostTries || (tries > 0 && table_->AwaitsPublish())) return kv::Code::kNoMemory;
    held_.Take(locks_->of(hash));
    code = table_->ReserveCopy(hash, record.key, record.value.size(), record.version, &reservation, now_ns_,
                               record.flags, record.item_kind, reach);
    if (code == kv::Code::kMakingRoom) held_.Release();
  }
  if (code != kv::Code::kOk) return code;
  kv::StoreBytes(reservation.value.data(), record.value.data(), record.value.size());
  reserved_.push_back(reservation);
  return code;
}

// Sets memory aside for the index. The hash is that of the put that is to be accepted.
kv::Code Backup::SetAside(uint64_t hash) {
  const size_t units = kLeastAside + reserved_.size() / kPutsForEach;
  kv::Code code = kv::Code::kMakingRoom;
  while (code == kv::Code::kMakingRoom) {
    held_.Take(locks_->of(hash));
    code = table_->SetAsideForIndex(units, table_->PartitionOf(hash), now_ns_);
    if (code == kv::Code::kMakingRoom) held_.Release();
  }
  return code;
}

// Makes room for the put. kNoMemory: there is none now.
kv::Code Backup::Place(const Record& record, uint64_t hash, bool is_last_try) {
  kv::Code code = SetAside(hash);
  if (code != kv::Code::kOk) return code;
  code = Copy(record, hash, kv::Reach::kOfCopies);
  if (code == kv::Code::kNoMemory) code = Copy(record, hash, kv::Reach::kReserve);
  return code == kv::Code::kNoMemory && is_last_try ? Copy(record, hash, kv::Reach::kLast) : code;
}

// Makes room for the record. False: there is none, or `failed_` is set.
bool Backup::Reserve(const Record& record) {
  if (record.kind == Record::Kind::kVersions && record.version >= kv::kEndOfVersions && failed_.ok()) {
    failed_ =
        absl::DataLossError(absl::StrCat("record ", record.sequence, ": version ", record.version, " is of no table"));
  }
  if (!failed_.ok()) return false;
  if (record.kind != Record::Kind::kPut) return true;
  const uint64_t hash = table_->HashOf(record.key);
  kv::Code code = Place(record, hash, /*is_last_try=*/false);
  if (code == kv::Code::kNoMemory && ApplyCommitted().ok()) code = Place(record, hash, /*is_last_try=*/false);
  if (code == kv::Code::kNoMemory && failed_.ok()) {
    waits_ = !stream_.tail().empty();
    if (waits_) return false;
    held_.Release();
    table_->ForgetStuck();
    code = Place(record, hash, /*is_last_try=*/true);
  }
  if (code == kv::Code::kOk) return true;
  if (code != kv::Code::kNoMemory && failed_.ok()) {
    failed_ = absl::DataLossError(absl::StrCat("record ", record.sequence, ": version ", record.version, " and ",
                                               record.value.size(), " bytes of value are of no table like this one (",
                                               kv::CodeName(code), ")"));
  }
  return false;
}

// Publishes the put, which is the first one reserved.
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
      while ((code = Publish(record)) == kv::Code::kMakingRoom) held_.Release();
      reserved_.pop_front();
      if (code == kv::Code::kOk) {
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
      if (code == kv::Code::kNotFound) code = kv::Code::kOk;  // a write of the key was undone
      if (!unplaced_.empty()) unplaced_.erase(record.key);
      break;
    }
    case Record::Kind::kTouch: {
      const uint64_t hash = table_->HashOf(record.key);
      held_.Take(locks_->of(hash));
      code = table_->Touch(hash, record.key, record.expires_ms, now_ns_).code;
      if (code == kv::Code::kNotFound) code = kv::Code::kOk;  // a joiner's copy will follow, and includes this
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
                                                     kv::CodeName(code), "): the table must be filled again"));
  }
  if (record.session != 0) {
    outcomes_.Note(record.session, {record.number, record.outcome, record.result});
  }
  return absl::OkStatus();
}

}  // namespace farlook::server
