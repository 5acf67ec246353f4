// When the cell of a deleted counter may be given to another: the bookkeeping.
//
// A holder is a connection that may have been told cells. A deleted counter's cell stays here until every holder of
// that time has acknowledged (it has dropped the cell, and everything that it ever posted to it has completed) or is
// gone (nothing of its can arrive any more). See "Counters" in docs/protocol.md.
//
//     Enroll ... Retire(cell) -> Tell -> Acknowledge, or Leave -> TakeReleased
//
// Retirements are numbered from 1. A holder has acknowledged all up to a number; those before its Enroll() do not
// concern it. So a cell is released when the least of the holders' numbers has reached its own.
//
// Thread safety: none.
// Invariants: least acknowledged <= acknowledged <= told <= last, of every holder; the queue holds exactly the
// retirements above the least acknowledged.
#ifndef FARLOOK_KV_CELL_QUARANTINE_H_
#define FARLOOK_KV_CELL_QUARANTINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

namespace farlook::kv {

class CellQuarantine {
 public:
  using Holder = uint64_t;  // from 1

  // A connection may be told cells from now on.
  Holder Enroll();

  // Nothing of the holder's can arrive any more.
  void Leave(Holder holder);

  // The counter's item is DEAD. (In this order: a holder that enrolls later cannot find the cell any more.)
  void Retire(uint64_t cell, uint64_t key_hash);

  // What this holder is to be told next: appends the key hashes of up to `most` retired counters to *hashes and returns
  // the number to acknowledge, or 0 if there is nothing, or it has not acknowledged what it was told before.
  uint64_t Tell(Holder holder, size_t most, std::vector<uint64_t>* hashes);

  // The holder says that it is done with all up to `number`. False: that is not what it was told.
  bool Acknowledge(Holder holder, uint64_t number);

  // Cells that became free since the last call, appended to *cells.
  void TakeReleased(std::vector<uint64_t>* cells);

  uint64_t last() const { return last_; }           // number of the last retirement
  size_t waiting() const { return queue_.size(); }  // cells that are not released
  size_t holders() const { return holders_.size(); }

 private:
  struct Retired {
    uint64_t cell;
    uint64_t key_hash;
  };
  struct Told {
    uint64_t acknowledged;
    uint64_t told;
  };

  void Release();

  uint64_t last_ = 0;
  Holder last_holder_ = 0;
  std::deque<Retired> queue_;  // numbers (last_ - size, last_]
  std::map<Holder, Told> holders_;
  std::multiset<uint64_t> acknowledged_;  // of all holders
  std::vector<uint64_t> released_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_CELL_QUARANTINE_H_
