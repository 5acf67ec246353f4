// Holds the requests of a group's primary until all members have their records. Until then no reply is sent and no
// client can READ the change.
//
//     Begin: condition judged, version assigned, item written DEAD, record appended
//         -> all members accept the record -> End: published -> answer
//
// A request that changes nothing also appends a record. After a failover the new primary thus knows that a condition
// failed when the same request is retried. A reply with table contents waits for a record of its own, appended after
// the request arrived. A member that accepts this record proves that this server was still its primary then.
//
// The expiry of an item is also a record. The item stays, and every request for its key waits, until that record is
// published. A key that was reported expired is therefore also absent at the next primary, whatever its clock shows.
// The worker that appends the record need not end it: it becomes an errand, which any worker can end.
//
// A counter's item holds the counter itself, and each change is a put of it. Cells, which clients change in place, are
// only for servers without followers.
//
// Thread safety: any thread. The state of a key is guarded by the lock of its partition.
// Invariants:
//   * A write is published, and its outcome sent, only after all members accepted its record.
//   * From Begin to End of a write, no other write with the same hash begins. So conditions are judged by published
//     items, and the records of a key are in the order in which they take effect.
//   * In slots that the group does not own, only Adopt() and EraseUnasked() begin writes. A thread that removes slots
//     (Serving) and then takes the lock of each partition once has seen all writes that began before.
//   * An accepted write for which the index has no room is undone by another record, and answered when that is
//     accepted.
#ifndef FARLOOK_SERVER_REPLICATION_COMMIT_GATE_H_
#define FARLOOK_SERVER_REPLICATION_COMMIT_GATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"
#include "rdma/clock.h"
#include "server/base/lock_times.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/replication/commit_notifier.h"
#include "server/replication/record_stream.h"
#include "server/replication/serving.h"
#include "server/session/session.h"

namespace farlook::server {

class CommitGate {
  using Kind = cluster::Record::Kind;

 public:
  // The table keeps expired items (TableOptions). All arguments outlive the gate.
  CommitGate(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, RecordStream* stream);

  // Origin of a request: its session and its number there.
  struct Asker {
    uint64_t session = 0, number = 0;
  };
  struct Begun {
    Outcome outcome;        // final if `sequence` is 0, else valid when that is committed
    uint64_t sequence = 0;  // 0: nothing was appended
    bool is_write = false;  // End() must be called before the reply
    bool expires = false;   // the written item has an expiry
  };
  // Begins a kPut, kDelete, kTouch, kGetAndTouch or counter change. Until End() the key's item stays as it was. For
  // kMakingRoom see Table::Put. Returns kBusy while a write of this key is under way, or the stream is full. Call again
  // when turn() has changed.
  Begun Begin(const kv::Request& request, uint64_t hash, Asker asker, bool may_step, LockTimes* times);
  // Like Begin(), for a value in a reservation. Takes over the reservation, except if it returns kBusy, kMakingRoom or
  // kNoMemory.
  Begun BeginReserved(const kv::Reservation& reservation, const kv::PutParams& params, Asker asker, bool may_step);
  // Begin() and BeginReserved() return kNoMemory if a member might not hold the item, by what it reported last. Only
  // after this returned true, the reports cover all that was committed at its first call: the caller then may believe
  // kNoMemory. It calls again when turn() has changed. `*asked` is 0 at the first call.
  bool IsRoomKnown(uint64_t* asked);
  // Begins a kCounterRead.
  Begun ReadCounter(const kv::Request& request, uint64_t hash, LockTimes* times);
  // Begins a reply with table contents that was put together before this call.
  Begun Confirm(const Outcome& outcome);

  // Append the user of a session; the outcome of an earlier request; the loss of a session. Return false if the stream
  // is full.
  bool Introduce(const Session& session);
  bool AppendReply(Asker asker, const Outcome& outcome) { return Refuse(outcome, asker).sequence != 0; }
  bool AppendLost(uint64_t session) { return stream_->Append({.kind = Kind::kLost, .session = session}) != 0; }

  // Begins a write that another group's primary sent with slots that move here; the item keeps its version. `record`
  // carries no session or number. Like Begin(), but conditions are not checked. A change to an absent item finishes
  // immediately (kOk, sequence 0).
  // `asked`: see IsRoomKnown(); kNoMemory is then certain.
  Begun Adopt(uint64_t hash, const cluster::Record& record, uint64_t* asked);

  // Publishes a write of Begin(). REQUIRES that `begun->sequence` is committed. Returns true if `begun->outcome` can be
  // sent. False: wait until `begun->sequence`, which may have changed, is committed, and call again.
  bool End(uint64_t hash, Begun* begun, LockTimes* times);

  // Hands a write that was begun to the errands: any worker ends it.
  void Leave(uint64_t hash, const Begun& begun);

  // Ends the key's item, which was found expired. False: it is already gone; look it up again now. True: look it up, or
  // call again, when turn() has changed.
  bool Expire(uint64_t hash, absl::string_view key);
  // Like Expire(), for a caller that does not wait. False: there are too many errands, or the stream is full.
  bool ExpireUnasked(uint64_t hash, absl::string_view key);
  // Erases the item of a key that another group owns, or that this group does not own yet. False: a write of the key is
  // under way, there are too many errands, or the stream is full.
  bool EraseUnasked(uint64_t hash, absl::string_view key);
  // Publishes committed errands. Returns their number; if that is kErrandsAtOnce, there may be more.
  static constexpr size_t kErrandsAtOnce = 256;
  size_t EndErrands(LockTimes* times);
  // Returns whether there are errands.
  bool has_errands() const { return notifier_->has_errands(); }

  // Returns whether a write of a key in these slots is under way. If requests for these slots are already refused,
  // false means that none changes anything after stream()->last().
  bool HasPending(const kv::SlotSet& slots);

  // Returns whether a write with this hash would be kBusy. If so, turn() changes when that ends.
  bool Busy(uint64_t hash);

  // Returns whether a copy of the key's published item, if `is_there`, must be appended for a follower that receives
  // the stream after record `from`. REQUIRES the lock of the key's partition, held until the copy is appended.
  enum class CopyNeed : uint8_t {
    kNeeded,
    kNotNeeded,  // a record after `from` contains the new item, or there is nothing to copy
    kNotNow,     // a write of the key must end first
  };
  CopyNeed NeedOfCopy(uint64_t hash, absl::string_view key, bool is_there, uint64_t from);
  static cluster::Record CopyOf(const kv::ItemView& item);
  // Returns the last copy's sequence; 0: the stream is full.
  uint64_t AppendCopies(absl::Span<const cluster::Record> copies);

  // Begins the copies of a partition. Appends its newest version, since deleted items used versions too. Calls
  // `under_way` for each write of a record up to `from`: its key may have no item yet. Returns the sequence; 0: the
  // stream is full, and `under_way` was not called. REQUIRES the partition's lock.
  uint64_t BeginCopies(int partition, uint64_t from,
                       absl::FunctionRef<void(uint64_t hash, absl::string_view key)> under_way);
  // Appends the newest version of a partition, as BeginCopies() does. REQUIRES the partition's lock.
  uint64_t AppendVersions(int partition);
  // Makes all later versions of the partition larger than `version`, which another table has used.
  void RaiseVersions(uint64_t version);

  uint64_t committed() const { return stream_->committed(); }
  // Is notified when a key becomes free that a request waits for.
  CommitNotifier* notifier() const { return notifier_; }
  // Sets which slots a cluster's group owns. Requests for other keys end with kMoved, and nothing expires there.
  // REQUIRES that no other thread uses the gate yet.
  void SetServing(const Serving* serving) { serving_ = serving; }

 private:
  // Limits the records that are kept for errands, for which no request waits.
  static constexpr size_t kMostErrands = 8192;

  // A write that is not published yet.
  struct Pending {
    uint64_t sequence = 0;
    Kind kind = Kind::kPut;
    uint64_t expires_ms = 0;  // expiry after a put or touch
    uint8_t flags = 0;        // item flags of a put
    kv::ItemKind item_kind = kv::ItemKind::kValue;
    bool is_expiry = false;
    bool wanted = false;               // a request waits for the key
    kv::Code failed = kv::Code::kOk;   // why publishing failed
    bool undone = false;               // the record that undoes the failed write is appended
    kv::Reservation reservation = {};  // of a put
    std::string key = {};
    Asker asker = {};
  };
  using Keys = absl::flat_hash_map<uint64_t, Pending>;  // by hash

  // The present state of a key.
  struct Present {
    kv::WriteResult result;  // kOk, kNotFound or kTimeIsOver
    kv::ItemView item;
  };
  struct Errand {
    uint64_t hash;
    Begun begun;
  };

  bool Owns(uint64_t hash) const { return serving_ == nullptr || serving_->Owns(kv::ClusterSlotOf(hash)); }
  Keys& KeysOf(uint64_t hash) { return partitions_[static_cast<size_t>(table_->PartitionOf(hash))]; }
  bool MarkBusy(uint64_t hash);
  Present Look(uint64_t hash, absl::string_view key) const;
  static Outcome Judge(const Present& present, kv::Condition condition, uint64_t version);
  static Outcome JudgeTouch(const Present& present, kv::RequestType type);
  Begun Refuse(const Outcome& outcome, Asker asker);
  Begun BeginCounter(const kv::Request& request, uint64_t hash, const Present& present, Pending pending, bool may_step);
  Begun BeginPut(uint64_t hash, absl::string_view value, const Present& present, Pending pending, Outcome outcome,
                 bool may_step);
  bool BeginExpiry(uint64_t hash, absl::string_view key, bool wanted);
  bool BeginErasure(uint64_t hash, Pending pending);
  bool HasRoomForErrand();
  Begun Append(uint64_t hash, Pending pending, absl::string_view value, const Outcome& outcome, uint64_t growth = 0);
  kv::WriteResult Publish(uint64_t hash, const Pending& pending);
  bool Undo(uint64_t hash, Pending* pending);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  const rdma::Clock* const clock_;
  const ServerTime time_;
  RecordStream* const stream_;
  CommitNotifier* const notifier_;  // the stream's
  const Serving* serving_ = nullptr;
  std::vector<Keys> partitions_;  // each guarded by its lock
  absl::Mutex errands_mutex_;     // acquired after the lock of a partition, never before it
  std::deque<Errand> errands_ ABSL_GUARDED_BY(errands_mutex_);  // nearly ordered by sequence
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_COMMIT_GATE_H_
