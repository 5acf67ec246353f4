// Of a group's primary: what a request meets between its arrival and its answer, so that nothing is told, and nothing
// can be READ, that not all members have.
//
//     Begin: condition judged, version assigned, item written DEAD, record appended
//         -> all members accept the record -> End: published -> answer
//
// What changes nothing is a record too: that a condition failed is known to whoever answers the same request later.
// Replies that tell what the table holds wait for a record of their own: who accepts one that was appended after the
// request arrived was led by this primary then.
//
// That an item's time is over is a record as well: it is there, and every request for its key waits, until that is
// published. So whoever was told that it has expired will not find it at the next primary, whose clock shows what it
// may. Who appends that record need not be there when it is committed: it is an errand, which any worker ends.
//
// A counter's item holds the counter itself, and each change is a put of it: cells, which clients change in place, are
// for servers that nobody follows.
//
// Thread safety: any thread. What is known of a key is guarded by the lock of its partition.
// Invariants:
//   * a write is published, and its outcome told, after all members accepted its record;
//   * from Begin to End of a write no other write of a key with this hash begins. So conditions are judged by what is
//     published, and records of a key stand in the stream in the order in which they take effect;
//   * of slots that are not the group's nothing begins, but what Adopt() and EraseUnasked() are asked for. Who takes
//     slots away from it (Serving) and then has had the lock of each partition knows all that began before;
//   * a write that was accepted, and for which the index has no room in the end, is undone by another record, and
//     answered when that is accepted.
#ifndef FARLOOK_SERVER_COMMIT_GATE_H_
#define FARLOOK_SERVER_COMMIT_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "cluster/record.h"
#include "kv/cluster_map.h"
#include "kv/message.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/lock_times.h"
#include "server/partition_locks.h"
#include "server/server_time.h"
#include "server/serving.h"
#include "server/session.h"
#include "server/sleeper.h"

namespace farlook::server {

// To whom records go.
class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // Gives the records, of which there is one at least, the next sequences above all before, whatever their own, and
  // returns the last. 0: members are so far behind that nothing more is kept for them. One that is not behind is never
  // refused a record. Any thread, with the lock of a partition.
  virtual uint64_t Append(absl::Span<const cluster::Record> records) = 0;
  uint64_t Append(const cluster::Record& record) { return Append(absl::MakeConstSpan(&record, 1)); }
  // All members accepted the records up to this sequence; never less than before. Any thread.
  virtual uint64_t committed() const = 0;
};

class CommitGate {
  using Kind = cluster::Record::Kind;

 public:
  // The table keeps what has expired (TableOptions). All outlive it.
  CommitGate(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, RecordStream* stream);

  // Who asks.
  struct Asker {
    uint64_t session = 0, number = 0;
  };
  struct Begun {
    Outcome outcome;        // to be told now, where the sequence is 0, else when that is committed
    uint64_t sequence = 0;  // 0: nothing was appended
    bool is_write = false;  // End() is due first
    bool expires = false;   // what it writes does
  };
  // A kPut, kDelete, kTouch or kGetAndTouch, or what changes a counter. Until End() the key's item is what it was.
  // kBusy: a write of this key is under way, or the stream is full; call again when turn() has changed. kMakingRoom: as
  // of Table::Put.
  Begun Begin(const kv::Request& request, uint64_t hash, Asker asker, bool may_step, LockTimes* times);
  // The same for a value that lies in a reservation, which is the gate's from now on; but not with kBusy.
  Begun BeginReserved(const kv::Reservation& reservation, const kv::PutParams& params, Asker asker);
  // A kCounterRead.
  Begun ReadCounter(const kv::Request& request, uint64_t hash, LockTimes* times);
  // Of a reply that tells what the table holds, and was put together before this call.
  Begun Confirm(const Outcome& outcome);

  // Appends whose a session is; what was told of a request before; that a session is lost. False: the stream is full.
  bool Introduce(const Session& session);
  bool Tell(Asker asker, const Outcome& outcome) { return Refuse(outcome, asker).sequence != 0; }
  bool TellLost(uint64_t session) { return stream_->Append({.kind = Kind::kLost, .session = session}) != 0; }

  // Of a primary that takes slots: carries out what another group's primary said of an item, which keeps its version.
  // `record` is nobody's. As of Begin(), but that nothing is judged: what changes an item that is not there is over at
  // once, with kOk and without a sequence.
  Begun Adopt(uint64_t hash, const cluster::Record& record);

  // Publishes what Begin() took, now that `begun->sequence` is committed. True: `begun->outcome` is to be told. False:
  // wait for `begun->sequence`, which is another one now, or the same, and call again.
  bool End(uint64_t hash, Begun* begun, LockTimes* times);

  // Whoever began a write goes: any worker ends it.
  void Leave(uint64_t hash, const Begun& begun);

  // The key's item was found to have expired: ends it. False: it is not there any more; look again. Else call again, or
  // look, when turn() has changed.
  bool Expire(uint64_t hash, absl::string_view key);
  // The same for who does not wait for it. False: there are as many errands as may be.
  bool ExpireUnasked(uint64_t hash, absl::string_view key);
  // Ends the item of a key that is another group's, or is yet to become this one's. As of ExpireUnasked().
  bool EraseUnasked(uint64_t hash, absl::string_view key);
  // Publishes what is committed of errands. How many.
  size_t EndErrands(LockTimes* times);

  // Whether a write of a key in one of these slots is under way. Where their requests are refused from now on: whether
  // there will be a record of one after stream()->last(), apart from such as change nothing.
  bool HasPending(const kv::SlotSet& slots);

  // Whether a write to a key of this hash would find it kBusy; then turn() changes when that is over.
  bool Busy(uint64_t hash);

  // Whether a copy of the key's published item, if `is_there`, is to be appended for who follows the stream from the
  // record after `from` on. REQUIRES the lock of the key's partition, until the copy is.
  enum class CopyNeed : uint8_t {
    kNeeded,
    kNotNeeded,  // a record after `from` says what the key will be; or there is nothing to copy
    kNotNow,     // a write of the key that is under way must end first
  };
  CopyNeed NeedOfCopy(uint64_t hash, absl::string_view key, bool is_there, uint64_t from);
  static cluster::Record CopyOf(const kv::ItemView& item);
  // The last one's sequence. 0: the stream is full.
  uint64_t AppendCopies(absl::Span<const cluster::Record> copies) { return stream_->Append(copies); }

  // What copies of items alone would miss of a partition: writes under way of records up to `from`, of keys that may
  // not be there yet, are shown; and records say up to where its versions are used, also by items that are gone. The
  // sequence; 0: the stream is full, and nothing is shown. REQUIRES the partition's lock.
  uint64_t BeginCopies(int partition, uint64_t from,
                       absl::FunctionRef<void(uint64_t hash, absl::string_view key)> under_way);
  // Appends the latter. REQUIRES the partition's lock.
  uint64_t TellVersions(int partition);
  // Of another table's: no later write here has one of them.
  void RaiseVersions(uint64_t version);

  uint64_t committed() const { return stream_->committed(); }
  // Changes when more is committed, or a key is free that somebody waits for.
  uint64_t turn() const { return turn_.load(std::memory_order_seq_cst); }
  // The stream's committed() has changed. Any thread.
  void Advanced();
  // Changes when there is something to send.
  uint64_t records() const { return records_.load(std::memory_order_seq_cst); }
  // The stream has something to send. Any thread.
  void Appended();
  // Of a cluster's group: which slots are its own. Requests of other keys end with kMoved, and nothing expires there.
  // REQUIRES that no other thread uses the gate yet.
  void SetServing(const Serving* serving) { serving_ = serving; }
  // `wake` is called, by any thread, when turn() or records() has changed, and the worker said that it sleeps until
  // then. REQUIRES that no other thread uses the gate yet.
  Sleeper* AddWorker(std::function<void()> wake) { return &sleepers_.emplace_back(std::move(wake)); }

 private:
  // Errands that nobody waits for: records that are kept for them are not many.
  static constexpr size_t kMostErrands = 1024;

  // A write that is not published yet.
  struct Pending {
    uint64_t sequence = 0;
    Kind kind = Kind::kPut;
    uint64_t expires_ms = 0;  // of what a put or touch leaves
    uint8_t flags = 0;        // of a put's item
    kv::ItemKind item_kind = kv::ItemKind::kValue;
    bool is_expiry = false;
    bool wanted = false;               // somebody waits for the key
    kv::Code failed = kv::Code::kOk;   // it could not be published
    bool undone = false;               // then: and the record that says so is appended
    kv::Reservation reservation = {};  // of a put
    std::string key = {};
    Asker asker = {};
  };
  using Keys = absl::flat_hash_map<uint64_t, Pending>;  // by hash

  // What the key names now.
  struct Present {
    kv::WriteResult result;  // kOk or kNotFound, or kTimeIsOver
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
  Begun BeginPut(uint64_t hash, absl::string_view value, Pending pending, Outcome outcome, bool may_step);
  void BeginExpiry(uint64_t hash, absl::string_view key, bool wanted);
  void BeginErasure(uint64_t hash, Pending pending);
  bool HasRoomForErrand();
  Begun Append(uint64_t hash, Pending pending, absl::string_view value, const Outcome& outcome);
  kv::WriteResult Publish(uint64_t hash, const Pending& pending);
  bool Undo(uint64_t hash, Pending* pending);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  const rdma::Clock* const clock_;
  const ServerTime time_;
  RecordStream* const stream_;
  const Serving* serving_ = nullptr;
  std::vector<Keys> partitions_;  // each under its lock
  std::atomic<uint64_t> turn_{1}, records_{1};
  std::deque<Sleeper> sleepers_;  // of all workers
  absl::Mutex errands_mutex_;     // is taken with the lock of a partition, and not the reverse
  std::deque<Errand> errands_ ABSL_GUARDED_BY(errands_mutex_);  // by sequence, nearly
  std::atomic<bool> has_errands_{false};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COMMIT_GATE_H_
