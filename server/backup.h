// A backup of a group: what it does with the records of its primary.
//
// What it accepts lies in the table already, DEAD, so that nothing can fail for want of memory later; what is committed
// is published, in the order of the stream. Versions, expiry and the outcomes of requests are the primary's. Nothing
// ends here because its time is over, but by a record (commit_gate.h); so no clock decides what the table holds.
//
// Room in the index is found only when an item is published. So memory for segments of the index is set aside, which is
// given back when the index lacks some, and nothing is accepted while any of it is used.
//
// Thread safety: none. Nobody else writes the table.
// Invariants:
//   * the table holds what the records up to applied() made, and nothing of later ones can be READ;
//   * a record is accepted only when all before it are, and there is room for it.
#ifndef FARLOOK_SERVER_BACKUP_H_
#define FARLOOK_SERVER_BACKUP_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cluster/record.h"
#include "cluster/stream.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/outcomes.h"
#include "server/partition_locks.h"
#include "server/record_sink.h"
#include "server/server_time.h"

namespace farlook::server {

class Backup final : public RecordSink {
 public:
  // An empty table that keeps what has expired (TableOptions), of as many partitions and with the same hash seed as the
  // primary's, which hears `primary` in `epoch` from record 1 on, or from the one after `accepted`, if that fills it.
  // All outlive it.
  Backup(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, uint64_t epoch,
         uint64_t primary, uint64_t accepted = 0);

  // Accepts what is new in a batch, and publishes what it says is committed. Errors: as of IncomingStream::Take().
  // RESOURCE_EXHAUSTED, and all that follows: this table has no room where the primary's has; only a new one, which is
  // filled, can follow. What was accepted before can be promoted. DATA_LOSS: a record that no table of this shape can
  // have made.
  absl::Status Take(std::string batch) override;

  // From now on it hears `primary`.
  void EnterEpoch(uint64_t epoch, uint64_t primary) { stream_.EnterEpoch(epoch, primary); }

  // Forgets the records after `to`, which a new primary lacks, so none of them is committed. DATA_LOSS: one is.
  absl::Status Cut(uint64_t to) override;

  // It is primary of `epoch` now: publishes all that was accepted, and gives back what is set aside. An error: it lacks
  // some of that, and must not serve.
  absl::Status Promote();

  // Take() or Promote() said that only a new table, which is filled, can follow.
  bool has_failed() const { return !failed_.ok(); }
  uint64_t accepted() const override { return stream_.accepted(); }
  uint64_t applied() const { return stream_.accepted() - stream_.tail().size(); }
  const cluster::IncomingStream& stream() const { return stream_; }
  const Outcomes& outcomes() const { return outcomes_; }
  // Of the table's memory, beside its items.
  uint64_t aside_bytes() const;

 private:
  // Set aside are pieces of a unit of the heap each, which one by one go to the index: some, and one for so many puts
  // that are not published. A put takes at most 64 bytes of the index while that grows.
  static constexpr size_t kLeastAside = 4, kPutsForEach = 1024;
  static constexpr uint64_t kAsideBytes = (64 << 10) - 256;

  bool Reserve(const cluster::Record& record);
  kv::Code Copy(const cluster::Record& record, uint64_t hash);
  bool SetAside(size_t pieces);
  bool UseAside();
  absl::Status Apply(const cluster::Record& record);
  kv::Code Publish(const cluster::Record& record);
  absl::Status ApplyCommitted();

  kv::Table* const table_;
  PartitionLocks* const locks_;
  const rdma::Clock* const clock_;
  const ServerTime time_;
  cluster::IncomingStream stream_;
  HeldLock held_;                         // while a call is carried out
  std::deque<kv::Reservation> reserved_;  // of the puts in the stream's tail
  std::vector<kv::Reservation> set_aside_;
  // Keys for which the index has no place, as the primary's had none most likely: its next record of the key says so.
  absl::flat_hash_set<std::string> unplaced_;
  Outcomes outcomes_;
  int64_t now_ns_ = 0;  // read once for each batch
  absl::Status failed_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BACKUP_H_
