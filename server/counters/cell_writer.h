// The server's own changes to counters' cells.
//
// One class of writer changes a cell for its whole life (see "One atomic domain" in docs/design-notes.md). On most
// devices an RDMA atomic is not atomic with a CPU's. So where a device is the atomic domain, the server must post its
// own atomics too, over a queue pair that it connects to itself on that device. Only shm lets the CPU do it.
//
// Thread safety: any thread; calls for one cell are made under the lock of its key's partition.
#ifndef FARLOOK_SERVER_COUNTERS_CELL_WRITER_H_
#define FARLOOK_SERVER_COUNTERS_CELL_WRITER_H_

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"

namespace farlook::server {

// A call returns when the change is visible to every later atomic of clients. For a queue pair that means a completion,
// awaited within a bound (some microseconds, as the peer is the device itself). A call returns false if the device
// failed; whether the cell was changed is then unknown.
class CellWriter {
 public:
  virtual ~CellWriter() = default;

  // REQUIRES, for all: `cell` is the offset of a cell of the region.
  virtual bool Read(uint64_t cell, int64_t* value) = 0;
  virtual bool FetchAdd(uint64_t cell, int64_t delta, int64_t* old) = 0;
  virtual bool CompareSwap(uint64_t cell, int64_t expected, int64_t desired, int64_t* old) = 0;
};

// For shm, where clients' atomics are instructions of CPUs of this host.
class CpuCellWriter final : public CellWriter {
 public:
  // `region` must outlive this.
  explicit CpuCellWriter(absl::Span<char> region) : region_(region.data()) {}

  bool Read(uint64_t cell, int64_t* value) override {
    *value = Word(cell).load(std::memory_order_seq_cst);
    return true;
  }
  bool FetchAdd(uint64_t cell, int64_t delta, int64_t* old) override {
    *old = Word(cell).fetch_add(delta, std::memory_order_seq_cst);
    return true;
  }
  bool CompareSwap(uint64_t cell, int64_t expected, int64_t desired, int64_t* old) override {
    Word(cell).compare_exchange_strong(expected, desired, std::memory_order_seq_cst);
    *old = expected;
    return true;
  }

 private:
  std::atomic_ref<int64_t> Word(uint64_t cell) const {
    return std::atomic_ref<int64_t>(*static_cast<int64_t*>(static_cast<void*>(region_ + cell)));
  }

  char* const region_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTERS_CELL_WRITER_H_
