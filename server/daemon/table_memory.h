// The memory of a server's table and of its counters' cells, and the table's beginning in it.
//
// Without --memory_file both end with the process. With it they lie in the files PATH and PATH.counters, which a later
// server finds. Then the table continues, with its incarnation, versions and counters (kv/table/recovery.h):
//
//     Make   takes PATH.lock -> opens both files                                     nothing is stored
//     Begin  compares them with the options -> waits until no reader trusts what     nothing is stored
//            it knew of the index -> kv::Recovery                                    the table continues
//            (no files: an empty table)
//     Keep   gives new files their names, PATH last: a file PATH is complete, and so is its PATH.counters
//
// A PATH.counters without PATH is of no table, and is removed.
//
// Readers. A reader of the former server may still be within a READ when this one begins. That server held the lock
// until its life sign, connections and queue pairs had ended, so the reader began before. Begin() stores nothing in the
// first kIndexTrustNs after that. A READ that ends later is not believed, as its reader looked at the index too long
// ago; and it cannot look again, since its connection is lost.
// Cells. No client may change cells of a file by itself, except with a device's atomics, by a queue pair that ended
// with the former server. So a cell that no counter names is known to no connection, and may be used.
#ifndef FARLOOK_SERVER_DAEMON_TABLE_MEMORY_H_
#define FARLOOK_SERVER_DAEMON_TABLE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kv/table/recovery.h"
#include "kv/table/table.h"
#include "rdma/clock.h"
#include "rdma/memory_file.h"
#include "rdma/shared_memory.h"
#include "server/daemon/server_options.h"
#include "server/daemon/stat_text.h"

namespace farlook::server {

class TableMemory {
 public:
  // Blocks while the kernel clears pages; `on_progress` is called with the bytes of the table that are done. DATA_LOSS:
  // --memory_file names something that this server cannot continue, and which it left as it was. Other errors: as
  // SharedMemory::Create and MemoryFile::Open.
  static absl::StatusOr<std::unique_ptr<TableMemory>> Make(const ServerOptions& options, int numa_node,
                                                           const rdma::Clock* clock,
                                                           std::function<void(uint64_t)> on_progress);

  // Returns the table. Where it continues, its incarnation, hash seed and number of partitions are those of the file.
  // DATA_LOSS as above. Called once, by a thread that may wait.
  absl::StatusOr<std::unique_ptr<kv::Table>> Begin(kv::TableOptions table);

  // DATA_LOSS: there is a file of that name now.
  absl::Status Keep();

  rdma::SharedMemory& table() { return *table_; }
  rdma::SharedMemory* cells() { return cells_; }  // null: there are no counters
  bool lasts() const { return !path_.empty(); }

  // Valid after Begin().
  uint64_t incarnation() const { return incarnation_; }
  const RestartFacts& restart() const { return restart_; }
  const std::vector<uint64_t>& used_cells() const { return used_cells_; }  // as for kv::CellPool

 private:
  TableMemory(const ServerOptions& options, const rdma::Clock* clock);

  absl::Status MakeAnonymous(const rdma::SharedMemoryOptions& table, const rdma::SharedMemoryOptions& cells);
  absl::Status OpenFiles(const rdma::SharedMemoryOptions& table, const rdma::SharedMemoryOptions& cells);
  absl::Status Discard();
  absl::StatusOr<std::unique_ptr<kv::Table>> Continue(const kv::TableOptions& options);
  absl::Status CheckFiles(const kv::RegionHeader& header) const;
  void WaitForReaders() const;
  void FreeOtherCells(const std::vector<bool>& is_used);
  absl::Span<char> CellSpan() const;

  const std::string path_;  // empty: the memory ends with the process
  const bool begin_empty_;
  const bool has_cells_;
  const uint64_t hash_seed_;  // that the operator wants; 0: any
  const rdma::Clock* const clock_;
  const int64_t began_ns_;
  int64_t locked_ns_ = 0;
  std::optional<rdma::PathLock> lock_;  // released after the memory
  std::optional<rdma::SharedMemory> anonymous_table_, anonymous_cells_;
  std::optional<rdma::MemoryFile> table_file_, cell_file_;
  rdma::SharedMemory* table_ = nullptr;
  rdma::SharedMemory* cells_ = nullptr;
  uint64_t incarnation_ = 0;
  RestartFacts restart_;
  std::vector<uint64_t> used_cells_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_TABLE_MEMORY_H_
