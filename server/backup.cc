#include "server/backup.h"

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kv/message.h"
#include "kv/words.h"

namespace farlook::server {

using cluster::Record;

Backup::Backup(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, uint64_t epoch,
               uint64_t primary, uint64_t accepted)
    : table_(table), locks_(locks), clock_(clock), time_(time), stream_(epoch, primary, accepted) {}

absl::Status Backup::Take(absl::string_view batch) {
  if (!failed_.ok()) return failed_;
  absl::Status taken = stream_.Take(batch, [this](const Record& record) { return Reserve(record); });
  if (!failed_.ok()) return failed_;
  if (absl::IsResourceExhausted(taken)) return failed_ = taken;
  if (absl::Status applied = ApplyCommitted(); !applied.ok()) return applied;
  return taken;
}

absl::Status Backup::Promote() {
  stream_.CommitAll();
  return ApplyCommitted();
}

absl::Status Backup::ApplyCommitted() {
  while (const Record* const record = stream_.ToApply()) {
    if (failed_ = Apply(*record); !failed_.ok()) return failed_;
    stream_.Applied();
  }
  return absl::OkStatus();
}

// Room for what the record puts. False: there is none, or `failed_`.
bool Backup::Reserve(const Record& record) {
  if (record.kind != Record::Kind::kPut) return true;
  const uint64_t hash = table_->HashOf(record.key);
  Reserved reserved;
  kv::Code code = kv::Code::kMakingRoom;
  while (code == kv::Code::kMakingRoom) {
    absl::MutexLock lock(locks_->of(hash));
    const int64_t now_ns = clock_->NowNs();
    reserved.expiry_ms = time_.ExpiryMs(record.expires_in_us, now_ns);
    code = table_->ReserveCopy(hash, record.key, record.value.size(), record.version, &reserved.reservation, now_ns);
  }
  if (code == kv::Code::kNoMemory) return false;
  if (code != kv::Code::kOk) {
    failed_ = absl::DataLossError(absl::StrCat("record ", record.sequence, ": version ", record.version, " and ",
                                               record.value.size(), " bytes of value are of no table like this one (",
                                               kv::CodeName(code), ")"));
    return false;
  }
  kv::StoreBytes(reserved.reservation.value.data(), record.value.data(), record.value.size());
  reserved_.push_back(reserved);
  return true;
}

absl::Status Backup::Apply(const Record& record) {
  kv::Code code = kv::Code::kOk;
  if (record.kind == Record::Kind::kPut) {
    const Reserved& reserved = reserved_.front();
    do {
      absl::MutexLock lock(locks_->of(reserved.reservation.hash));
      kv::PutParams params;
      params.expiry_ms = reserved.expiry_ms;
      code = table_->Publish(reserved.reservation, params, clock_->NowNs()).code;
    } while (code == kv::Code::kMakingRoom);
    reserved_.pop_front();
  } else if (record.kind == Record::Kind::kDelete) {
    const uint64_t hash = table_->HashOf(record.key);
    absl::MutexLock lock(locks_->of(hash));
    code = table_->Delete(hash, record.key, kv::Condition::kAlways, 0, clock_->NowNs()).code;
    if (code == kv::Code::kNotFound) code = kv::Code::kOk;  // it has expired here, or a write of it was undone
  }
  if (code != kv::Code::kOk) {
    return absl::ResourceExhaustedError(absl::StrCat("record ", record.sequence, " finds no place in the index (",
                                                     kv::CodeName(code), "): the table must be filled anew"));
  }
  if (record.session != 0) {
    outcomes_.Note(record.session, {record.number, static_cast<kv::Code>(record.outcome), record.version});
  }
  return absl::OkStatus();
}

}  // namespace farlook::server
