#include "server/replication/commit_gate.h"

#include <optional>
#include <utility>

#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/layout/size_class.h"
#include "kv/layout/words.h"
#include "kv/wire/room.h"
#include "server/counters/counter_change.h"

namespace farlook::server {
namespace {

bool WantsPresent(kv::Condition condition) {
  return condition == kv::Condition::kPresent || condition == kv::Condition::kVersion;
}

// The memory that a piece of this class needs beyond the present item's, `old`: none if it fits there. Until the write
// is published both exist, for which members have a reserve.
uint64_t GrowthOf(kv::SizeClass size_class, const kv::WriteResult& old) {
  if (old.code == kv::Code::kOk && size_class <= old.slot.size_class()) return 0;
  return kv::SizeClassBytes(size_class) + kv::Room::kIndexBytes;
}

}  // namespace

CommitGate::CommitGate(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time,
                       RecordStream* stream)
    : table_(table),
      locks_(locks),
      clock_(clock),
      time_(time),
      stream_(stream),
      notifier_(stream->notifier()),
      partitions_(static_cast<size_t>(table->partitions())) {}

bool CommitGate::MarkBusy(uint64_t hash) {
  Keys& keys = KeysOf(hash);
  const auto found = keys.find(hash);
  if (found == keys.end()) return false;
  found->second.wanted = true;
  return true;
}

bool CommitGate::Busy(uint64_t hash) {
  TimedLock lock(locks_->of(hash), nullptr);
  return MarkBusy(hash);
}

CommitGate::Present CommitGate::Look(uint64_t hash, absl::string_view key) const {
  Present present;
  present.result = table_->Get(hash, key, &present.item);
  if (present.result.code == kv::Code::kOk && kv::HasExpired(present.item.expiry_ms, time_.At(clock_->NowNs()))) {
    present.result.code = kv::Code::kTimeIsOver;
  }
  return present;
}

// kOk if the condition holds; as the table would say it.
Outcome CommitGate::Judge(const Present& present, kv::Condition condition, uint64_t version) {
  if (present.result.code != kv::Code::kOk) {
    return Outcome(WantsPresent(condition) ? kv::Code::kNotFound : kv::Code::kOk);
  }
  kv::Code code = kv::Code::kOk;
  if (present.item.kind != kv::ItemKind::kValue) {
    code = kv::Code::kWrongKind;
  } else if (condition == kv::Condition::kAbsent) {
    code = kv::Code::kExists;
  } else if (condition == kv::Condition::kVersion && version != present.result.version) {
    code = kv::Code::kVersionMismatch;
  }
  return {code, present.result.version, present.result.slot};
}

Outcome CommitGate::JudgeTouch(const Present& present, kv::RequestType type) {
  if (present.result.code != kv::Code::kOk) return Outcome(kv::Code::kNotFound);
  if (type == kv::RequestType::kGetAndTouch && present.item.kind != kv::ItemKind::kValue) {
    return Outcome(kv::Code::kWrongKind);
  }
  return {kv::Code::kOk, present.result.version, present.result.slot};
}

// The condition does not hold, which is told when all members know it.
CommitGate::Begun CommitGate::Refuse(const Outcome& outcome, Asker asker) {
  const uint64_t sequence = stream_->Append({.kind = Kind::kOutcome,
                                             .session = asker.session,
                                             .number = asker.number,
                                             .outcome = outcome.code,
                                             .result = outcome.result()});
  if (sequence == 0) return {Outcome(kv::Code::kBusy)};
  return {outcome, sequence};
}

bool CommitGate::Introduce(const Session& session) {
  return stream_->Append({.kind = Kind::kSession,
                          .session = session.id(),
                          .version = session.confirmed_epoch(),
                          .key = session.user()}) != 0;
}

CommitGate::Begun CommitGate::Append(uint64_t hash, Pending pending, absl::string_view value, const Outcome& outcome,
                                     uint64_t growth) {
  pending.sequence = stream_->Append({.kind = pending.kind,
                                      .session = pending.asker.session,
                                      .number = pending.asker.number,
                                      .outcome = kv::Code::kOk,
                                      .result = outcome.result(),
                                      .version = pending.reservation.version,
                                      .expires_ms = pending.expires_ms,
                                      .flags = pending.flags,
                                      .item_kind = pending.item_kind,
                                      .key = pending.key,
                                      .value = value},
                                     {.bytes = growth});
  if (pending.sequence == 0) return {Outcome(kv::Code::kBusy)};
  const uint64_t sequence = pending.sequence;
  const bool expires = pending.expires_ms != 0;
  KeysOf(hash).emplace(hash, std::move(pending));
  return {outcome, sequence, /*is_write=*/true, expires};
}

CommitGate::Begun CommitGate::Begin(const kv::Request& request, uint64_t hash, Asker asker, bool may_step,
                                    LockTimes* times) {
  TimedLock lock(locks_->of(hash), times);
  if (!Owns(hash)) return {Outcome(kv::Code::kMoved)};
  if (MarkBusy(hash)) return {Outcome(kv::Code::kBusy)};
  const Present present = Look(hash, request.key);
  if (present.result.code == kv::Code::kTimeIsOver) {
    BeginExpiry(hash, request.key, /*wanted=*/true);
    return {Outcome(kv::Code::kBusy)};
  }
  Pending pending;
  pending.key = std::string(request.key);
  pending.asker = asker;
  pending.expires_ms = time_.ExpiryMs(request.option.ttl_us, clock_->NowNs());
  if (kv::IsCounterRequest(request.type)) return BeginCounter(request, hash, present, std::move(pending), may_step);
  kv::Condition condition = request.condition;
  Outcome judged;
  switch (request.type) {
    case kv::RequestType::kTouch:
    case kv::RequestType::kGetAndTouch:
      pending.kind = Kind::kTouch;
      judged = JudgeTouch(present, request.type);
      break;
    case kv::RequestType::kDelete:
      pending.kind = Kind::kDelete;
      condition = condition == kv::Condition::kVersion ? condition : kv::Condition::kPresent;
      [[fallthrough]];
    default:
      judged = Judge(present, condition, request.version);
  }
  if (judged.code != kv::Code::kOk) return Refuse(judged, asker);
  if (pending.kind != Kind::kPut) return Append(hash, std::move(pending), {}, judged);
  if (request.option.keep_ttl && present.item.expiry_ms != 0) pending.expires_ms = present.item.expiry_ms;
  pending.flags = request.option.item_flags;
  return BeginPut(hash, request.value, present, std::move(pending), Outcome(), may_step);
}

CommitGate::Begun CommitGate::BeginPut(uint64_t hash, absl::string_view value, const Present& present, Pending pending,
                                       Outcome outcome, bool may_step) {
  const uint64_t growth = GrowthOf(kv::SizeClassFor(kv::ItemBytes(pending.key.size(), value.size())), present.result);
  if (growth != 0 && !stream_->HasRoomFor(growth)) [[unlikely]]
    return {Outcome(may_step ? kv::Code::kNoMemory : kv::Code::kMakingRoom)};
  kv::Reservation& reservation = pending.reservation;
  const kv::Code code = table_->Reserve(hash, pending.key, value.size(), &reservation, clock_->NowNs(), may_step,
                                        pending.flags, pending.item_kind);
  if (code != kv::Code::kOk) return {Outcome(code)};
  kv::StoreBytes(reservation.value.data(), value.data(), value.size());
  const kv::Reservation reserved = reservation;
  if (pending.item_kind == kv::ItemKind::kValue) outcome = {kv::Code::kOk, reserved.version, reserved.slot};
  Begun begun = Append(hash, std::move(pending), value, outcome, growth);
  if (begun.sequence == 0) table_->Abandon(reserved);
  return begun;
}

CommitGate::Begun CommitGate::BeginReserved(const kv::Reservation& reservation, const kv::PutParams& params,
                                            Asker asker, bool may_step) {
  const uint64_t hash = reservation.hash;
  if (!Owns(hash)) {
    table_->Abandon(reservation);
    return {Outcome(kv::Code::kMoved)};
  }
  if (MarkBusy(hash)) return {Outcome(kv::Code::kBusy)};
  const auto lengths = kv::ItemLengths::From(kv::LoadWord(reservation.head.data()));
  Pending pending;
  pending.reservation = reservation;
  pending.flags = lengths.flags;
  pending.key = std::string(reservation.head.substr(sizeof(uint64_t), lengths.key_bytes));
  pending.asker = asker;
  const Present present = Look(hash, pending.key);
  if (present.result.code == kv::Code::kTimeIsOver) {
    BeginExpiry(hash, pending.key, /*wanted=*/true);
    return {Outcome(kv::Code::kBusy)};
  }
  const Outcome judged = Judge(present, params.condition, params.version);
  if (judged.code != kv::Code::kOk) {
    Begun refused = Refuse(judged, asker);
    if (refused.sequence != 0) table_->Abandon(reservation);
    return refused;
  }
  const uint64_t growth = GrowthOf(reservation.slot.size_class(), present.result);
  if (growth != 0 && !stream_->HasRoomFor(growth)) [[unlikely]]
    return {Outcome(may_step ? kv::Code::kNoMemory : kv::Code::kMakingRoom)};
  const bool keeps = params.keep_ttl && present.item.expiry_ms != 0;
  pending.expires_ms = keeps ? present.item.expiry_ms : params.expiry_ms;
  return Append(hash, std::move(pending), {reservation.value.data(), reservation.value.size()},
                {kv::Code::kOk, reservation.version, reservation.slot}, growth);
}

bool CommitGate::IsRoomKnown(uint64_t* asked) {
  // Each member accepts the record with a report, after it has applied what was committed before.
  if (*asked == 0) *asked = stream_->Append({.kind = Kind::kOutcome});
  return *asked != 0 && *asked <= committed();
}

CommitGate::Begun CommitGate::Adopt(uint64_t hash, const cluster::Record& record, uint64_t* asked) {
  TimedLock lock(locks_->of(hash), nullptr);
  if (MarkBusy(hash)) return {Outcome(kv::Code::kBusy)};
  Pending pending;
  pending.kind = record.kind;
  pending.key = std::string(record.key);
  pending.expires_ms = record.expires_ms;
  const Present present = Look(hash, record.key);
  if (record.kind != Kind::kPut) {
    if (present.result.code == kv::Code::kNotFound) return {Outcome(kv::Code::kOk)};
    return Append(hash, std::move(pending), {}, Outcome());
  }
  const uint64_t growth =
      GrowthOf(kv::SizeClassFor(kv::ItemBytes(record.key.size(), record.value.size())), present.result);
  if (growth != 0 && !stream_->HasRoomFor(growth)) {
    return {Outcome(IsRoomKnown(asked) ? kv::Code::kNoMemory : kv::Code::kBusy)};
  }
  pending.flags = record.flags;
  pending.item_kind = record.item_kind;
  kv::Reservation& reservation = pending.reservation;
  const kv::Code code = table_->ReserveCopy(hash, record.key, record.value.size(), record.version, &reservation,
                                            clock_->NowNs(), record.flags, record.item_kind);
  if (code != kv::Code::kOk) return {Outcome(code)};
  kv::StoreBytes(reservation.value.data(), record.value.data(), record.value.size());
  const kv::Reservation reserved = reservation;
  Begun begun = Append(hash, std::move(pending), record.value, Outcome(), growth);
  if (begun.sequence == 0) table_->Abandon(reserved);
  return begun;
}

// ---- Counters.

CommitGate::Begun CommitGate::BeginCounter(const kv::Request& request, uint64_t hash, const Present& present,
                                           Pending pending, bool may_step) {
  std::optional<int64_t> value;
  if (present.result.code == kv::Code::kOk) {
    if (present.item.kind != kv::ItemKind::kCounter) return Refuse(Outcome(kv::Code::kWrongKind), pending.asker);
    value = static_cast<int64_t>(kv::LoadWord(present.item.value.data()));
    pending.expires_ms = present.item.expiry_ms;
  }
  const CounterChange change = ChangeOf(request, value);
  if (change.deletes) {
    pending.kind = Kind::kDelete;
    pending.expires_ms = 0;
    return Append(hash, std::move(pending), {}, change.outcome);
  }
  if (!change.next.has_value()) return Refuse(change.outcome, pending.asker);
  pending.item_kind = kv::ItemKind::kCounter;
  char bytes[sizeof(int64_t)];
  kv::StoreAs(bytes, *change.next);
  return BeginPut(hash, {bytes, sizeof bytes}, present, std::move(pending), change.outcome, may_step);
}

CommitGate::Begun CommitGate::ReadCounter(const kv::Request& request, uint64_t hash, LockTimes* times) {
  TimedLock lock(locks_->of(hash), times);
  if (!Owns(hash)) return {Outcome(kv::Code::kMoved)};
  const Present present = Look(hash, request.key);
  if (present.result.code == kv::Code::kTimeIsOver) {
    if (!MarkBusy(hash)) BeginExpiry(hash, request.key, /*wanted=*/true);
    return {Outcome(kv::Code::kBusy)};
  }
  if (present.result.code != kv::Code::kOk) return Confirm(Outcome(present.result.code));
  if (present.item.kind != kv::ItemKind::kCounter) return Confirm(Outcome(kv::Code::kWrongKind));
  return Confirm(ChangeOf(request, static_cast<int64_t>(kv::LoadWord(present.item.value.data()))).outcome);
}

// ---- Ends of items.

// Begins the erasure of an item. Returns false, and does nothing, if the stream is full. REQUIRES the lock, and that no
// write is under way.
bool CommitGate::BeginErasure(uint64_t hash, Pending pending) {
  pending.kind = Kind::kDelete;
  const Begun begun = Append(hash, std::move(pending), {}, Outcome());
  if (begun.sequence != 0) Leave(hash, begun);
  return begun.sequence != 0;
}

bool CommitGate::BeginExpiry(uint64_t hash, absl::string_view key, bool wanted) {
  Pending pending;
  pending.key = std::string(key);
  pending.is_expiry = true;
  pending.wanted = wanted;
  return BeginErasure(hash, std::move(pending));
}

bool CommitGate::HasRoomForErrand() {
  absl::MutexLock lock(&errands_mutex_);
  return errands_.size() < kMostErrands;
}

bool CommitGate::Expire(uint64_t hash, absl::string_view key) {
  TimedLock lock(locks_->of(hash), nullptr);
  if (!Owns(hash)) return true;  // the next lookup returns kMoved
  if (Look(hash, key).result.code != kv::Code::kTimeIsOver) return false;
  if (!MarkBusy(hash)) BeginExpiry(hash, key, /*wanted=*/true);
  return true;
}

bool CommitGate::ExpireUnasked(uint64_t hash, absl::string_view key) {
  if (!HasRoomForErrand()) return false;
  TimedLock lock(locks_->of(hash), nullptr);
  if (Owns(hash) && !KeysOf(hash).contains(hash) && Look(hash, key).result.code == kv::Code::kTimeIsOver) {
    return BeginExpiry(hash, key, /*wanted=*/false);
  }
  return true;
}

bool CommitGate::EraseUnasked(uint64_t hash, absl::string_view key) {
  if (!HasRoomForErrand()) return false;
  TimedLock lock(locks_->of(hash), nullptr);
  if (KeysOf(hash).contains(hash)) return false;
  if (Look(hash, key).result.code == kv::Code::kNotFound) return true;
  Pending pending;
  pending.key = std::string(key);
  return BeginErasure(hash, std::move(pending));
}

bool CommitGate::HasPending(const kv::SlotSet& slots) {
  for (size_t i = 0; i < partitions_.size(); ++i) {
    TimedLock lock(locks_->at(static_cast<int>(i)), nullptr);
    for (const auto& [hash, pending] : partitions_[i]) {
      if (slots[kv::ClusterSlotOf(hash)]) return true;
    }
  }
  return false;
}

void CommitGate::Leave(uint64_t hash, const Begun& begun) {
  {
    absl::MutexLock lock(&errands_mutex_);
    errands_.push_back({hash, begun});
    notifier_->SetErrands();
  }
  // Otherwise the commit notifies the workers, which then find the errand.
  if (begun.sequence <= committed()) notifier_->NotifyTurn();
}

// Tries each present errand once. An errand that lacks room, or was undone, is queued again behind the others.
size_t CommitGate::EndErrands(LockTimes* times) {
  size_t done = 0;
  for (size_t most = kErrandsAtOnce; most > 0; --most) {
    Errand errand;
    {
      absl::MutexLock lock(&errands_mutex_);
      if (errands_.empty() || errands_.front().begun.sequence > committed()) return done;
      errand = errands_.front();
      errands_.pop_front();
      if (errands_.empty()) notifier_->ClearErrands();
    }
    if (End(errand.hash, &errand.begun, times)) {
      ++done;
    } else {
      Leave(errand.hash, errand.begun);  // it may wait for room, which the next attempt makes
    }
  }
  return done;
}

// ---- All that is appended.

CommitGate::Begun CommitGate::Confirm(const Outcome& outcome) {
  const uint64_t sequence = stream_->Append({.kind = Kind::kOutcome});
  if (sequence == 0) return {Outcome(kv::Code::kBusy)};
  return {outcome, sequence};
}

uint64_t CommitGate::BeginCopies(int partition, uint64_t from,
                                 absl::FunctionRef<void(uint64_t hash, absl::string_view key)> under_way) {
  const uint64_t sequence = AppendVersions(partition);
  if (sequence == 0) return 0;
  for (const auto& [hash, pending] : partitions_[static_cast<size_t>(partition)]) {
    if (pending.sequence <= from) under_way(hash, pending.key);
  }
  return sequence;
}

uint64_t CommitGate::AppendVersions(int partition) {
  return stream_->Append({.kind = Kind::kVersions, .version = table_->NewestVersion(partition)});
}

void CommitGate::RaiseVersions(uint64_t version) {
  kv::LockedPartition lock(locks_->at(table_->PartitionOfVersion(version)));
  table_->RaiseVersions(version);
}

CommitGate::CopyNeed CommitGate::NeedOfCopy(uint64_t hash, absl::string_view key, bool is_there, uint64_t from) {
  Keys& keys = KeysOf(hash);
  if (const auto found = keys.find(hash); found != keys.end() && found->second.key == key) {
    if (found->second.sequence > from && found->second.kind != Kind::kTouch) return CopyNeed::kNotNeeded;
    found->second.wanted = true;
    return CopyNeed::kNotNow;
  }
  return is_there ? CopyNeed::kNeeded : CopyNeed::kNotNeeded;
}

uint64_t CommitGate::AppendCopies(absl::Span<const cluster::Record> copies) {
  uint64_t bytes = 0;
  for (const cluster::Record& copy : copies) {
    const kv::SizeClass size_class = kv::SizeClassFor(kv::ItemBytes(copy.key.size(), copy.value.size()));
    bytes += GrowthOf(size_class, {.code = kv::Code::kNotFound, .slot = {}});
  }
  return stream_->Append(copies, {.bytes = bytes, .is_refused = false});
}

cluster::Record CommitGate::CopyOf(const kv::ItemView& item) {
  return {.kind = Kind::kPut,
          .version = item.version,
          .expires_ms = item.expiry_ms,
          .flags = item.flags,
          .item_kind = item.kind,
          .key = item.key,
          .value = item.value};
}

// Appends a record that restores the key's published state and contains the failed outcome. False: the stream is full.
bool CommitGate::Undo(uint64_t hash, Pending* pending) {
  kv::ItemView item;
  const bool present = table_->Get(hash, pending->key, &item).code == kv::Code::kOk;
  const uint64_t sequence = stream_->Append({.kind = present ? Kind::kPut : Kind::kDelete,
                                             .session = pending->asker.session,
                                             .number = pending->asker.number,
                                             .outcome = pending->failed,
                                             .version = present ? item.version : 0,
                                             .expires_ms = present ? item.expiry_ms : 0,
                                             .flags = present ? item.flags : uint8_t{0},
                                             .item_kind = present ? item.kind : kv::ItemKind::kValue,
                                             .key = pending->key,
                                             .value = present ? item.value : absl::string_view()});
  if (sequence == 0) return false;
  pending->sequence = sequence;
  return true;
}

// Makes an accepted write take effect. Returns kMakingRoom if it must be called again.
kv::WriteResult CommitGate::Publish(uint64_t hash, const Pending& pending) {
  const int64_t now_ns = clock_->NowNs();
  if (pending.kind == Kind::kDelete) return table_->Erase(hash, pending.key, pending.is_expiry, now_ns);
  if (pending.kind == Kind::kTouch) return table_->Touch(hash, pending.key, pending.expires_ms, now_ns);
  kv::PutParams params;
  params.expiry_ms = pending.expires_ms;
  return table_->Publish(pending.reservation, params, now_ns);
}

bool CommitGate::End(uint64_t hash, Begun* begun, LockTimes* times) {
  bool wanted = false;
  {
    TimedLock lock(locks_->of(hash), times);
    Keys& keys = KeysOf(hash);
    Pending& pending = keys.at(hash);
    if (pending.failed == kv::Code::kOk) {
      const kv::WriteResult result = Publish(hash, pending);
      if (result.code == kv::Code::kMakingRoom) return false;
      pending.failed = result.code;
      if (result.code != kv::Code::kOk) begun->outcome = Outcome(result.code);
    }
    if (pending.failed != kv::Code::kOk && !pending.undone) {
      pending.undone = Undo(hash, &pending);
      if (pending.undone) begun->sequence = pending.sequence;
      return false;
    }
    wanted = pending.wanted;
    keys.erase(hash);
  }
  if (wanted) notifier_->NotifyTurn();
  return true;
}

}  // namespace farlook::server
