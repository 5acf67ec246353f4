// Decides when the cell of a deleted counter may be reused.
//
// A holder is a connection that may have received cells. A deleted counter's cell stays here until every holder of that
// time has acknowledged the deletion or has left. An acknowledgement means that the holder dropped the cell, and that
// every request it ever posted to the cell has completed. A holder that left can send nothing more. See "Counters" in
// docs/protocol.md.
//
//      Enroll ... Retire(cell) -> NextNotice -> Acknowledge, or Leave -> TakeReleased
//
// Retirements are numbered from 1. A holder has acknowledged all numbers up to one; those before its Enroll() do not
// concern it. So a cell is released when the least of the holders' numbers reaches the number of the cell's retirement.
//
// Thread safety: none.
// Invariants: least acknowledged <= acknowledged <= told <= last, of every holder; the queue holds exactly the
// retirements above the least acknowledged.
#ifndef FARLOOK_KV_COUNTERS_CELL_QUARANTINE_H_
#define FARLOOK_KV_COUNTERS_CELL_QUARANTINE_H_

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

  // From now on the connection may receive cells.
  Holder Enroll();

  // The holder can send nothing more.
  void Leave(Holder holder);

  // The counter's item is DEAD before this call, so that a holder that enrolls later cannot find the cell.
  void Retire(uint64_t cell, uint64_t key_hash);

  // Builds the next notice for this holder: appends the key hashes of up to `most` retired counters to *hashes. Returns
  // the number to acknowledge, or 0 if there is nothing to send or the last notice is not acknowledged yet.
  uint64_t NextNotice(Holder holder, size_t most, std::vector<uint64_t>* hashes);

  // The holder acknowledges all retirements up to `number`. Returns false if that is not the number of its last notice.
  bool Acknowledge(Holder holder, uint64_t number);

  // Appends the cells that became free since the last call to *cells.
  void TakeReleased(std::vector<uint64_t>* cells);

  uint64_t last() const { return last_; }           // number of the last retirement
  size_t waiting() const { return queue_.size(); }  // cells that are not released
  size_t holders() const { return holders_.size(); }

 private:
  struct Retired {
    uint64_t cell;
    uint64_t key_hash;
  };
  struct Noticed {
    uint64_t acknowledged;
    uint64_t sent;
  };

  void Release();

  uint64_t last_ = 0;
  Holder last_holder_ = 0;
  std::deque<Retired> queue_;  // numbers (last_ - size, last_]
  std::map<Holder, Noticed> holders_;
  std::multiset<uint64_t> acknowledged_;  // of all holders
  std::vector<uint64_t> released_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_COUNTERS_CELL_QUARANTINE_H_
