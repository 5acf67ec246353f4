// Continues a table that another process left in its region, wherever that process ended.
//
// The region alone decides. Each store of the writer leaves a region in which every acknowledged write is found by
// these rules; see "Recovery" in docs/protocol.md.
//   * Directory entries that form no aligned block are a half-done split, merge or move (recovery_directory.h).
//   * A segment that no entry leads to is retired. A slot whose key its segment does not serve is a copy.
//   * An item that a slot leads to and that is whole is alive, although its version says DEAD, or its expiry was being
//     changed. If it is not whole, the redo piece has what was being written there.
//   * A counter whose cell is not live is a half-done delete.
//   * An item was moved last from one place to another: where no slot leads, it is ended.
//   * What no slot names is free. Versions and segment ids continue above the marks.
// Slots that cannot be believed are dropped and counted. Then all memory that no slot names is searched for living
// items, which are ended. A region that is damaged otherwise is refused, unchanged. Recovery itself may be interrupted
// and repeated.
//
// Limits. A living item's checksum is computed only with RecoveryOptions::verify; without, a damaged value is found
// when it is read. Of two slots whose pieces overlap, the first is kept. A small item that lies in the spare stays in a
// unit of its own until it is overwritten, and a cache looks for it among medium items. One thread does all.
#ifndef FARLOOK_KV_TABLE_RECOVERY_H_
#define FARLOOK_KV_TABLE_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kv/heap/heap_recovery.h"
#include "kv/layout/region.h"
#include "kv/layout/slot.h"
#include "kv/table/recovery_directory.h"
#include "kv/table/table.h"

namespace farlook::kv {

struct RecoveryOptions {
  bool verify = false;  // computes the checksums of all items, not only of those that were being written
  // Returns whether this cell is live, and no other counter's. Called once for each counter. Null: all are.
  std::function<bool(uint64_t cell)> is_live;
};

struct RecoveryReport {
  uint64_t keys = 0;
  uint64_t revived = 0;           // items that were being written, deleted or touched
  uint64_t redone = 0;            // items that the redo piece completed
  uint64_t dropped = 0;           // slots that led to no item that can be believed
  uint64_t copies = 0;            // slots whose keys another segment serves
  uint64_t ended_counters = 0;    // whose cells were not live
  uint64_t ended_moves = 0;       // items that were alive without a slot
  uint64_t mended_entries = 0;    // of the directory
  uint64_t retired_segments = 0;  // without an entry
};

class Recovery {
 public:
  // Continues the table in `region`, which must outlive the new table. No other process may write there, nor read until
  // this returns and kIndexTrustNs have passed since the region's last reader looked at the index. Incarnation, hash
  // seed and number of partitions are the region's; those in `options` have no meaning. `now_ns`: as for Table::Put().
  // Errors leave the region unchanged. FAILED_PRECONDITION: no region, another layout, size or limit of values, or the
  // region of a group's member. DATA_LOSS: header, directory, page map or marks are damaged. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Table>> Run(absl::Span<char> region, TableOptions options,
                                                    const RecoveryOptions& recovery, int64_t now_ns,
                                                    RecoveryReport* report);

 private:
  using Segment = RecoveryDirectory::Segment;
  // The decision about a slot.
  enum class Verdict : uint8_t { kKeep, kRedo, kCopy, kEndCounter, kDrop };

  Recovery(Table* table, const RegionHeader& header, const RecoveryOptions& options, int64_t now_ns,
           RecoveryReport* report);

  absl::Status Read();
  absl::Status CheckMarks() const;
  void Write();
  void ReadPartition(Partition* partition, absl::Span<const Segment> segments);
  void PrefetchItems(const char* segment, uint32_t bucket) const;
  void PrefetchCells(const char* segment, uint32_t bucket) const;
  uint32_t ReadSegment(Partition* partition, const Segment& segment);
  Verdict Judge(const Partition& partition, const Segment& segment, uint32_t word, Slot slot, uint64_t* hash) const;
  bool IsWhole(const char* item, uint64_t bytes, uint64_t version, bool verify) const;
  bool MayRedo(const Partition& partition, Slot slot) const;
  void Redo(const Partition& partition, char* item);
  void Keep(Partition* partition, Slot slot, uint64_t hash);
  void Drop(char* at, Slot slot);
  void EndDropped();
  void RetireSegments();
  void EndMoves(const Partition& partition);

  Table* const table_;
  char* const region_;
  const RegionHeader header_;
  const RecoveryOptions& options_;
  const int64_t now_ns_;
  RecoveryReport* const report_;
  RecoveryDirectory directory_;
  HeapRecovery heap_;
  std::vector<std::pair<uint64_t, uint64_t>> expiries_;  // of the partition: hash, milliseconds
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_RECOVERY_H_
