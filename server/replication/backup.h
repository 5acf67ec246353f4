// A backup of a group, which applies the records of its primary.
//
// An accepted put is already in the table, DEAD, so that it cannot fail later for lack of memory. Committed records are
// published in stream order. Versions, expiry times and outcomes of requests are the primary's. Items expire here only
// by a record (commit_gate.h), so no clock affects the contents of the table.
//
// An item gets its place in the index only when it is published. So memory for index segments is set aside, which no
// item gets. No put is accepted until the used memory is set aside again.
//
// A put may use the reserve of the table, which the primary leaves to overwrites: here items lie in other places, and
// more memory may be holes. A put that finds no room waits for the commit of accepted records, which frees the items
// that they overwrite. The primary had published these when it appended the put. Only if nothing waits for its commit,
// and moving items has made no room, the backup fails.
//
// Thread safety: none. No other thread writes the table.
// Invariants:
//   * The table holds the result of the records up to applied(); nothing of later ones can be READ.
//   * A record is accepted only after all records before it, and only if there is room for it.
#ifndef FARLOOK_SERVER_REPLICATION_BACKUP_H_
#define FARLOOK_SERVER_REPLICATION_BACKUP_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cluster/record.h"
#include "cluster/stream.h"
#include "kv/table/table.h"
#include "rdma/clock.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/replication/record_sink.h"
#include "server/session/reply_cache.h"

namespace farlook::server {

class Backup final : public RecordSink {
 public:
  // Follows `primary` in `epoch` from record 1, or, if `accepted` is given, from the next record, while it is filled.
  // `table` is empty, keeps expired items (TableOptions), and has the primary's hash seed and number of partitions. All
  // arguments outlive the backup.
  Backup(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, uint64_t epoch,
         uint64_t primary, uint64_t accepted = 0);

  // Accepts the new records of a batch, and publishes those that it marks as committed. Records that must wait for a
  // commit are accepted at a later batch. Errors: as IncomingStream::Take(), and the following. RESOURCE_EXHAUSTED,
  // then also for all later batches: this table has no room where the primary's has. Only a new table, which is filled,
  // can follow; the accepted records can still be promoted. DATA_LOSS: no table of this shape can have produced the
  // record.
  absl::Status Take(std::string batch) override;

  // Follows `primary` from now on.
  void EnterEpoch(uint64_t epoch, uint64_t primary) { stream_.EnterEpoch(epoch, primary); }

  // Discards the records after `to`, which a new primary lacks, so none of them is committed. DATA_LOSS: one is.
  absl::Status Cut(uint64_t to) override;

  // Becomes the primary: publishes all accepted records, and frees the memory set aside. After an error some of them
  // are missing, and it must not serve.
  absl::Status Promote();

  // Returns whether Take(), Cut() or Promote() failed so that only a new table, which is filled, can follow.
  bool has_failed() const { return !failed_.ok(); }
  uint64_t accepted() const override { return stream_.accepted(); }
  kv::Room room() const override { return room_; }
  uint64_t applied() const { return stream_.accepted() - stream_.tail().size(); }
  const cluster::IncomingStream& stream() const { return stream_; }
  const ReplyCache& outcomes() const { return outcomes_; }

 private:
  // Units that are set aside for the index: kLeastAside, and one more for each kPutsForEach unpublished puts. A put
  // uses at most 64 bytes of the index while that grows.
  static constexpr size_t kLeastAside = 4, kPutsForEach = 1024;

  bool Reserve(const cluster::Record& record);
  kv::Code Place(const cluster::Record& record, uint64_t hash, bool is_last_try);
  kv::Code Copy(const cluster::Record& record, uint64_t hash, kv::Reach reach);
  kv::Code SetAside(uint64_t hash);
  absl::Status Apply(const cluster::Record& record);
  kv::Code Publish(const cluster::Record& record);
  absl::Status ApplyCommitted();

  kv::Table* const table_;
  PartitionLocks* const locks_;
  const rdma::Clock* const clock_;
  const ServerTime time_;
  cluster::IncomingStream stream_;
  HeldLock held_;                         // during a call
  std::deque<kv::Reservation> reserved_;  // for the puts in the stream's tail
  // Keys without a place in the index. Most likely the primary had none either, and undoes the put with its next record
  // of the key.
  absl::flat_hash_set<std::string> unplaced_;
  ReplyCache outcomes_;
  int64_t now_ns_ = 0;  // read once for each batch
  bool waits_ = false;  // a record waits for the commit of earlier ones
  kv::Room room_;       // after the last batch
  absl::Status failed_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_BACKUP_H_
