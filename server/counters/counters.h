// The counters of a server: executes requests on them, and tracks the connections that may know their cells. Shared by
// all workers.
//
// Order of steps, each visible before the next:
//     create: the cell gets its value -> the item is written, alive (here it takes effect)
//     delete: the cell is poisoned (here it takes effect) -> the item DEAD -> its slot cleared -> the list of holders
//             is taken -> ... all have acknowledged or disconnected ... -> the cell may be another counter's
// See "Counters" in docs/protocol.md.
//
// Thread safety: any thread. Execute takes the lock of the key's partition, and within it this class's own.
#ifndef FARLOOK_SERVER_COUNTERS_COUNTERS_H_
#define FARLOOK_SERVER_COUNTERS_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/counters/cell_pool.h"
#include "kv/counters/cell_quarantine.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"
#include "rdma/clock.h"
#include "server/base/lock_times.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/counters/cell_writer.h"
#include "server/session/session.h"

namespace farlook::server {

// For kStat.
struct CounterStats {
  uint64_t counters = 0;
  uint64_t cells = 0;
  uint64_t cells_free = 0;
  uint64_t cells_quarantined = 0;
  uint64_t holders = 0;  // connections that may know cells
};

class Counters {
 public:
  using Holder = kv::CellQuarantine::Holder;

  // `region` is formatted (kv/layout/cell_region.h). `used`: as for kv::CellPool; no connection may know another cell.
  // All arguments but `used` must outlive this.
  Counters(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, absl::Span<char> region,
           std::unique_ptr<CellWriter> writer, const std::vector<uint64_t>& used = {});

  // Executes a request about a counter; `hash` is its key's. Outcome::counter contains the cell if `with_cell`.
  // REQUIRES IsCounterRequest; for `with_cell`, that the asking connection is enrolled. `times` belongs to the calling
  // thread; null: the time under the lock is not recorded.
  Outcome Execute(const kv::Request& request, uint64_t hash, bool with_cell, LockTimes* times = nullptr);

  // Deletes the counter of this key and hash if it has expired by this time of the server's clock.
  void Expire(absl::string_view key, uint64_t hash, uint64_t clock_us);

  // Adds a worker: `wake` is called, from any thread, when there are notices for its connections.
  int AddWorker(std::function<void()> wake);
  // Returns whether there are new notices for this worker's connections since the last call. One load if there are
  // none.
  bool TakeNews(int worker);

  // See kv::CellQuarantine.
  Holder Enroll();
  void Leave(Holder holder);
  uint64_t NextNotice(Holder holder, size_t most, std::vector<uint64_t>* hashes);
  bool Acknowledge(Holder holder, uint64_t sequence);

  CounterStats stats() const;

 private:
  struct News {
    explicit News(std::function<void()> wake_function) : wake(std::move(wake_function)) {}
    const std::function<void()> wake;
    std::atomic<bool> any{false};
  };

  // Creates a counter that holds `value`; the outcome contains `told`.
  Outcome Create(const kv::Request& request, uint64_t hash, int64_t value, int64_t told, uint64_t* cell);
  Outcome CreateAndAdd(const kv::Request& request, uint64_t hash, uint64_t* cell);
  Outcome Add(int64_t delta, uint64_t cell);
  Outcome Swap(int64_t expected, int64_t desired, uint64_t cell);
  Outcome Read(uint64_t cell);
  Outcome Delete(const kv::Request& request, uint64_t hash, uint64_t cell);
  bool Set(uint64_t cell, int64_t value);
  uint64_t AllocateCell();
  void FreeCell(uint64_t cell);
  void Retire(uint64_t cell, uint64_t hash);
  void TakeReleased() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  kv::Table* const table_;
  PartitionLocks* const locks_;
  const rdma::Clock* const clock_;
  const ServerTime time_;
  const std::unique_ptr<CellWriter> writer_;
  std::deque<News> news_;  // of each worker; fixed before the first request

  mutable absl::Mutex mutex_;
  kv::CellPool pool_ ABSL_GUARDED_BY(mutex_);
  kv::CellQuarantine quarantine_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> released_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTERS_COUNTERS_H_
