// Imports slots: the primary of the taking group applies the records of the giving group. Records of the slots' keys
// become its own writes with unchanged versions, so its backups also get them. Until the group owns the slots, requests
// for these keys are refused and no client READs them (docs/cluster-design.md, "Slots that move").
//
// Expiry times are converted to this server's clock, as at a backup. No item of the slots expires here in the meantime
// (CommitGate): the giver may still extend its life.
//
// Each write needs a round trip to this group's backups. So records of a key that arrive during its write are merged,
// and only their result is written. Otherwise the taker might never catch up with a key that is written all the time.
//
// Thread safety: none; one thread, which calls Pump().
// Invariants:
//   * A record is accepted after all members of this group have it, or a later one of the same key, and know its
//     version, and all earlier records are accepted.
//   * The records of one key are applied one after the other.
#ifndef FARLOOK_SERVER_REPLICATION_SLOT_IMPORTER_H_
#define FARLOOK_SERVER_REPLICATION_SLOT_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "cluster/record.h"
#include "cluster/stream.h"
#include "kv/table/table.h"
#include "kv/wire/cluster_map.h"
#include "rdma/clock.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/replication/commit_gate.h"
#include "server/replication/record_sink.h"

namespace farlook::server {

class SlotImporter final : public RecordSink {
 public:
  struct Parts {
    const kv::Table* table;
    PartitionLocks* locks;
    const rdma::Clock* clock;
    ServerTime time;
    CommitGate* gate;
  };
  // Follows `giver`, the incarnation of a primary, from the record after `accepted`. The members of `parts` outlive it.
  SlotImporter(const Parts& parts, const kv::SlotSet& slots, uint64_t giver, uint64_t accepted)
      : parts_(parts),
        slots_(slots),
        giver_(giver),
        stream_(0, giver, accepted),
        accepted_(accepted),
        confirmed_(accepted) {}

  // Leaves its unfinished writes to the gate's errands.
  ~SlotImporter() override;

  // Keeps the batch for Pump(). Errors: see cluster::IncomingStream.
  absl::Status Take(std::string batch) override;
  // Always fails: the taker cannot have records that the giver lacks.
  absl::Status Cut(uint64_t to) override;
  uint64_t accepted() const override { return confirmed_; }
  kv::Room room() const override { return {}; }  // this group's own gate refuses what finds no room
  // Returns whether it keeps few enough bytes of records that are not applied.
  bool has_room() const { return kept_bytes_ < kMostKeptBytes; }
  // Returns whether all received records are accepted.
  bool is_idle() const { return confirmed_ == accepted_ && keys_.empty() && stream_.tail().empty(); }

  // Applies what it can, and ends committed writes. Returns whether it did anything. failed() becomes
  // RESOURCE_EXHAUSTED, for good, if this group's table has no room; DATA_LOSS if a version is impossible.
  bool Pump();
  const absl::Status& failed() const { return failed_; }

  uint64_t giver() const { return giver_; }
  uint64_t items() const { return items_; }  // puts that it applied

 private:
  static constexpr size_t kMostKeptBytes = 4 << 20;
  static constexpr size_t kMostUnderWay = 4096;

  // A copy of a record of a key, independent of the record's batch.
  struct Write {
    Write() = default;
    explicit Write(const cluster::Record& of);
    cluster::Record AsRecord() const;

    cluster::Record::Kind kind = cluster::Record::Kind::kPut;
    uint64_t version = 0, expires_ms = 0;
    uint8_t flags = 0;
    kv::ItemKind item_kind = kv::ItemKind::kValue;
    std::string key = {}, value = {};
    size_t bytes = 0;                   // size of the record
    std::vector<uint64_t> covers = {};  // sequences that are accepted with it
  };
  // The writes of a key: one that is under way or stalled, and the next one.
  struct Key {
    Write now = {};
    CommitGate::Begun begun = {};
    uint64_t asked = 0;  // see CommitGate::IsRoomKnown()
    std::optional<Write> next = {};
  };

  bool TakeNext();
  bool Add(const cluster::Record& record, uint64_t hash);
  bool Begin(uint64_t hash, Key* key);
  bool EndNext();
  void Ended(uint64_t hash);
  void Accept(uint64_t sequence);
  void Owe(uint64_t version);
  bool AppendVersions();

  const Parts parts_;
  const kv::SlotSet slots_;
  const uint64_t giver_;
  cluster::IncomingStream stream_;
  size_t kept_bytes_ = 0;                    // of records that are neither applied nor skipped
  absl::flat_hash_map<uint64_t, Key> keys_;  // writes under way, by hash
  std::deque<uint64_t> begun_;               // hashes of begun writes, in commit order
  std::deque<uint64_t> stalled_;             // hashes of writes that found no room, or the key busy
  std::deque<bool> accepted_after_;          // for each record after accepted_: whether it is accepted too
  uint64_t accepted_;                        // accepted, apart from versions
  uint64_t confirmed_;                       // accepted, including versions: what the giver is sent
  // Versions that no record of this group contains. These are the partitions whose newest version must be appended, the
  // last such record that is appended, and what is accepted once it is committed.
  std::set<int> owed_;
  uint64_t versions_sequence_ = 0;  // 0: none is pending
  uint64_t confirmed_next_ = 0;
  uint64_t items_ = 0;
  absl::Status failed_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REPLICATION_SLOT_IMPORTER_H_
