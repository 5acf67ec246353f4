// What the primary of a group that takes slots does with the records of the group that has them: those of the slots'
// keys become writes of its own, with the versions that they have, so that its own backups have them too. Until the
// slots are the group's nobody can ask for these keys, and no client READs them (docs/cluster.md, "Slots that move").
//
// Items' times are made times of this server's clock, as at a backup. Nothing of the slots expires here meanwhile
// (CommitGate): the giver may yet say that an item lives longer.
//
// A key that is written again and again takes a round trip to this group's backups each time. So of its records that
// come meanwhile only what they come to is carried out: else who takes could never catch up with who gives.
//
// Thread safety: none; one thread, which asks to Pump().
// Invariants: a record is accepted when all members of this group have what it says, or what a later one says of the
// same key, know its version, and all records before it are. Of one key one record after the other is carried out.
#ifndef FARLOOK_SERVER_ADOPTER_H_
#define FARLOOK_SERVER_ADOPTER_H_

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
#include "kv/cluster_map.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/commit_gate.h"
#include "server/partition_locks.h"
#include "server/record_sink.h"
#include "server/server_time.h"

namespace farlook::server {

class Adopter final : public RecordSink {
 public:
  struct Parts {
    const kv::Table* table;
    PartitionLocks* locks;
    const rdma::Clock* clock;
    ServerTime time;
    CommitGate* gate;
  };
  // Hears `giver`, a primary, from the record after `accepted` on. What is in `parts` outlives it.
  Adopter(const Parts& parts, const kv::SlotSet& slots, uint64_t giver, uint64_t accepted)
      : parts_(parts),
        slots_(slots),
        giver_(giver),
        stream_(0, giver, accepted),
        accepted_(accepted),
        told_(accepted) {}

  // What it has begun is ended by others.
  ~Adopter() override;

  // Keeps it; Pump() carries it out. Errors: as of cluster::IncomingStream.
  absl::Status Take(std::string batch) override;
  // Whoever takes slots is never ahead.
  absl::Status Cut(uint64_t to) override;
  uint64_t accepted() const override { return told_; }
  // Not much is kept that is not carried out.
  bool has_room() const { return kept_bytes_ < kMostKeptBytes; }
  // All that it was sent is accepted.
  bool is_idle() const { return told_ == accepted_ && keys_.empty() && stream_.tail().empty(); }

  // Carries out what it can, and ends what is committed. Whether it did anything. RESOURCE_EXHAUSTED, and all that
  // follows: this group's table has no room.
  bool Pump();
  const absl::Status& failed() const { return failed_; }

  uint64_t giver() const { return giver_; }
  uint64_t items() const { return items_; }  // puts that it carried out

 private:
  static constexpr size_t kMostKeptBytes = 4 << 20;
  static constexpr size_t kMostUnderWay = 4096;

  // What a record says of a key, when the batch that it came in may be gone.
  struct Write {
    Write() = default;
    explicit Write(const cluster::Record& of);
    cluster::Record AsRecord() const;

    cluster::Record::Kind kind = cluster::Record::Kind::kPut;
    uint64_t version = 0, expires_ms = 0;
    uint8_t flags = 0;
    kv::ItemKind item_kind = kv::ItemKind::kValue;
    std::string key = {}, value = {};
    size_t bytes = 0;                   // of the record
    std::vector<uint64_t> covers = {};  // sequences that are accepted with it
  };
  // Of a key: what is being carried out, or about to be, and what comes after it.
  struct Key {
    Write now = {};
    CommitGate::Begun begun = {};
    std::optional<Write> next = {};
  };

  bool TakeNext();
  bool Add(const cluster::Record& record, uint64_t hash);
  bool Begin(uint64_t hash, Key* key);
  bool EndNext();
  void Ended(uint64_t hash);
  void Accept(uint64_t sequence);
  void Owe(uint64_t version);
  bool TellVersions();

  const Parts parts_;
  const kv::SlotSet slots_;
  const uint64_t giver_;
  cluster::IncomingStream stream_;
  size_t kept_bytes_ = 0;                    // of records that are neither carried out nor passed over
  absl::flat_hash_map<uint64_t, Key> keys_;  // by hash: those that are under way
  std::deque<uint64_t> begun_;               // their hashes, in the order of what they wait for
  std::deque<uint64_t> stalled_;             // of those that found no room, or the key busy
  std::deque<bool> accepted_after_;          // of each record after accepted_: whether it is, too
  uint64_t accepted_;                        // but for the versions
  uint64_t told_;                            // likewise, with them
  // Versions that no record of its own has: of which partitions the members are to be told, the record that tells the
  // last of them, and what is accepted with it.
  std::set<int> owed_;
  uint64_t telling_ = 0;  // 0: none is on its way
  uint64_t told_next_ = 0;
  uint64_t items_ = 0;
  absl::Status failed_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ADOPTER_H_
