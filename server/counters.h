// The counters of a server: what requests do to them, and which connections may know their cells. Shared by all
// workers.
//
// The order of things, each visible before the next:
//     create: the cell gets its value -> the item is written, alive (here it takes effect)
//     delete: the cell is poisoned (here it takes effect) -> the item DEAD -> its slot cleared -> the list of holders
//             is taken -> ... all have acknowledged or are gone ... -> the cell may be another counter's
// See "Counters" in docs/protocol.md.
//
// Thread safety: any thread. Execute takes the lock of the key's partition, and within it this class's own.
#ifndef FARLOOK_SERVER_COUNTERS_H_
#define FARLOOK_SERVER_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kv/cell_pool.h"
#include "kv/cell_quarantine.h"
#include "kv/message.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "server/cell_writer.h"
#include "server/lock_times.h"
#include "server/partition_locks.h"
#include "server/server_time.h"
#include "server/session.h"

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

  // `region` is formatted (kv/cell_region.h). All outlive this.
  Counters(kv::Table* table, PartitionLocks* locks, const rdma::Clock* clock, ServerTime time, absl::Span<char> region,
           std::unique_ptr<CellWriter> writer);

  // Carries out a request about a counter, whose key has this hash. Outcome::counter bears the cell where `tell_cell`.
  // REQUIRES IsCounterRequest; for `tell_cell`: the asking connection is enrolled.
  // `times`: of the calling thread; null: it is not noted how long the lock is held.
  Outcome Execute(const kv::Request& request, uint64_t hash, bool tell_cell, LockTimes* times = nullptr);

  // Ends the counter of this key, whose hash this is, if it has expired by this time of the server's clock.
  void Expire(absl::string_view key, uint64_t hash, uint64_t clock_us);

  // A worker takes part: `wake` is called, from any thread, when there are notices for its connections.
  int AddWorker(std::function<void()> wake);
  // Whether there is news for this worker's connections since the last call. One load when not.
  bool TakeNews(int worker);

  // As kv::CellQuarantine.
  Holder Enroll();
  void Leave(Holder holder);
  uint64_t Tell(Holder holder, size_t most, std::vector<uint64_t>* hashes);
  bool Acknowledge(Holder holder, uint64_t sequence);

  CounterStats stats() const;

 private:
  struct News {
    explicit News(std::function<void()> wake_function) : wake(std::move(wake_function)) {}
    const std::function<void()> wake;
    std::atomic<bool> any{false};
  };

  Outcome Create(const kv::Request& request, uint64_t hash, uint64_t* cell);
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

#endif  // FARLOOK_SERVER_COUNTERS_H_
