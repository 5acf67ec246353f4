#include "server/commit_gate.h"

#include <utility>

#include "kv/words.h"

namespace farlook::server {
namespace {

using Kind = RecordStream::Kind;

bool WantsPresent(kv::Condition condition) {
  return condition == kv::Condition::kPresent || condition == kv::Condition::kVersion;
}

}  // namespace

CommitGate::CommitGate(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, RecordStream* stream)
    : table_(table),
      locks_(locks),
      clock_(clock),
      stream_(stream),
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

// kOk if the condition holds; as the table would say it. Nothing expires in a group.
Outcome CommitGate::Judge(uint64_t hash, absl::string_view key, kv::Condition condition, uint64_t version) const {
  kv::ItemView item;
  const kv::WriteResult found = table_->Get(hash, key, &item);
  if (found.code != kv::Code::kOk) {
    return Outcome(WantsPresent(condition) ? kv::Code::kNotFound : kv::Code::kOk);
  }
  kv::Code code = kv::Code::kOk;
  if (item.kind != kv::ItemKind::kValue) {
    code = kv::Code::kWrongKind;
  } else if (condition == kv::Condition::kAbsent) {
    code = kv::Code::kExists;
  } else if (condition == kv::Condition::kVersion && version != found.version) {
    code = kv::Code::kVersionMismatch;
  }
  return {code, found.version, found.slot};
}

// The condition does not hold, which is told when all members know it.
CommitGate::Begun CommitGate::Refuse(const Outcome& outcome, Asker asker) {
  const uint64_t sequence = stream_->Append({.kind = Kind::kOutcome,
                                             .session = asker.session,
                                             .number = asker.number,
                                             .outcome = outcome.code,
                                             .version = outcome.version});
  if (sequence == 0) return {Outcome(kv::Code::kBusy)};
  return {outcome, sequence};
}

bool CommitGate::Introduce(const Session& session) {
  return stream_->Append({.kind = Kind::kSession,
                          .session = session.id(),
                          .version = session.confirmed_epoch(),
                          .key = session.user()}) != 0;
}

CommitGate::Begun CommitGate::Append(uint64_t hash, Pending pending, absl::string_view value, const Outcome& outcome) {
  pending.sequence = stream_->Append({.kind = pending.deletes ? Kind::kDelete : Kind::kPut,
                                      .session = pending.asker.session,
                                      .number = pending.asker.number,
                                      .outcome = kv::Code::kOk,
                                      .version = outcome.version,
                                      .flags = pending.flags,
                                      .key = pending.key,
                                      .value = value});
  if (pending.sequence == 0) return {Outcome(kv::Code::kBusy)};
  const uint64_t sequence = pending.sequence;
  KeysOf(hash).emplace(hash, std::move(pending));
  return {outcome, sequence, /*is_write=*/true};
}

CommitGate::Begun CommitGate::Begin(const kv::Request& request, uint64_t hash, Asker asker, bool may_step,
                                    LockTimes* times) {
  TimedLock lock(locks_->of(hash), times);
  if (MarkBusy(hash)) return {Outcome(kv::Code::kBusy)};
  const bool deletes = request.type == kv::RequestType::kDelete;
  kv::Condition condition = request.condition;
  if (deletes) condition = condition == kv::Condition::kVersion ? condition : kv::Condition::kPresent;
  const Outcome judged = Judge(hash, request.key, condition, request.version);
  if (judged.code != kv::Code::kOk) return Refuse(judged, asker);
  Pending pending;
  pending.deletes = deletes;
  pending.key = std::string(request.key);
  pending.asker = asker;
  if (deletes) return Append(hash, std::move(pending), {}, judged);
  pending.flags = request.option.item_flags;
  kv::Reservation& reservation = pending.reservation;
  const kv::Code code = table_->Reserve(hash, request.key, request.value.size(), &reservation, clock_->NowNs(),
                                        may_step, request.option.item_flags);
  if (code != kv::Code::kOk) return {Outcome(code)};
  kv::StoreBytes(reservation.value.data(), request.value.data(), request.value.size());
  const kv::Reservation reserved = reservation;
  Begun begun = Append(hash, std::move(pending), request.value, {kv::Code::kOk, reserved.version, reserved.slot});
  if (begun.sequence == 0) table_->Abandon(reserved);
  return begun;
}

CommitGate::Begun CommitGate::BeginReserved(const kv::Reservation& reservation, kv::Condition condition,
                                            uint64_t version, Asker asker) {
  const uint64_t hash = reservation.hash;
  if (MarkBusy(hash)) return {Outcome(kv::Code::kBusy)};
  const auto lengths = kv::ItemLengths::From(kv::LoadWord(reservation.head.data()));
  Pending pending;
  pending.reservation = reservation;
  pending.flags = lengths.flags;
  pending.key = std::string(reservation.head.substr(sizeof(uint64_t), lengths.key_bytes));
  pending.asker = asker;
  const Outcome judged = Judge(hash, pending.key, condition, version);
  if (judged.code != kv::Code::kOk) {
    Begun refused = Refuse(judged, asker);
    if (refused.sequence != 0) table_->Abandon(reservation);
    return refused;
  }
  return Append(hash, std::move(pending), {reservation.value.data(), reservation.value.size()},
                {kv::Code::kOk, reservation.version, reservation.slot});
}

CommitGate::Begun CommitGate::Confirm(const Outcome& outcome) {
  const uint64_t sequence = stream_->Append({});
  if (sequence == 0) return {Outcome(kv::Code::kBusy)};
  return {outcome, sequence};
}

CommitGate::Copied CommitGate::Copy(uint64_t hash, absl::string_view key, const kv::ItemView& item, uint64_t from) {
  Keys& keys = KeysOf(hash);
  if (const auto found = keys.find(hash); found != keys.end() && found->second.key == key) {
    if (found->second.sequence > from) return {Copied::Result::kNotNeeded};
    found->second.wanted = true;
    return {Copied::Result::kNotNow};
  }
  const uint64_t sequence = stream_->Append(
      {.kind = Kind::kPut, .version = item.version, .flags = item.flags, .key = key, .value = item.value});
  if (sequence == 0) return {Copied::Result::kNotNow};
  return {Copied::Result::kAppended, sequence};
}

// Says to the members that the key is what it was before, and what the asker is told. False: the stream is full.
bool CommitGate::Undo(uint64_t hash, Pending* pending) {
  kv::ItemView item;
  const bool present = table_->Get(hash, pending->key, &item).code == kv::Code::kOk;
  const uint64_t sequence = stream_->Append({.kind = present ? Kind::kPut : Kind::kDelete,
                                             .session = pending->asker.session,
                                             .number = pending->asker.number,
                                             .outcome = pending->failed,
                                             .version = present ? item.version : 0,
                                             .flags = present ? item.flags : uint8_t{0},
                                             .key = pending->key,
                                             .value = present ? item.value : absl::string_view()});
  if (sequence == 0) return false;
  pending->sequence = sequence;
  return true;
}

bool CommitGate::End(uint64_t hash, Begun* begun, LockTimes* times) {
  bool wanted = false;
  {
    TimedLock lock(locks_->of(hash), times);
    Keys& keys = KeysOf(hash);
    Pending& pending = keys.at(hash);
    const int64_t now_ns = clock_->NowNs();
    if (pending.failed == kv::Code::kOk) {
      const kv::WriteResult result = pending.deletes
                                         ? table_->Delete(hash, pending.key, kv::Condition::kAlways, 0, now_ns)
                                         : table_->Publish(pending.reservation, kv::PutParams(), now_ns);
      if (result.code == kv::Code::kMakingRoom) return false;
      pending.failed = result.code;
      begun->outcome = {result.code, result.version, result.slot};
    }
    if (pending.failed != kv::Code::kOk && !pending.undone) {
      pending.undone = Undo(hash, &pending);
      if (pending.undone) begun->sequence = pending.sequence;
      return false;
    }
    wanted = pending.wanted;
    keys.erase(hash);
  }
  if (wanted) Advanced();
  return true;
}

void CommitGate::Advanced() {
  turn_.fetch_add(1, std::memory_order_acq_rel);
  for (const auto& wake : wakes_) wake();
}

}  // namespace farlook::server
