// The deadlines of all operations in flight, in any engine. The cost does not depend on their number.
//
// A radix heap. An operation is in the list of the highest bit in which its deadline differs from `since_`, the time of
// the last look. When the time first differs in bit k, all lists below k have expired and those above have not. List k
// is distributed again, each operation to a lower list. So an operation moves at most once for each bit; in practice
// not at all, since most end long before.
#ifndef FARLOOK_CLIENT_OP_DEADLINES_H_
#define FARLOOK_CLIENT_OP_DEADLINES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "client/op/operation.h"

namespace farlook::client {

// Thread safety: one thread. Operations remove themselves when they end.
class Deadlines {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // REQUIRES: it is in no such list, and has a deadline.
  void Add(Operation* operation) {
    const int64_t deadline_ns = operation->deadline_ns;
    if (deadline_ns < earliest_ns_) earliest_ns_ = deadline_ns;
    const uint64_t at = static_cast<uint64_t>(deadline_ns > since_ ? deadline_ns : since_);
    lists_[TopBit(at ^ static_cast<uint64_t>(since_))].Push(operation);
  }

  // Returns a lower bound of all deadlines.
  int64_t earliest_ns() const { return earliest_ns_; }
  // Moves operations whose deadlines have passed at `now_ns` to `over`. REQUIRES that time does not go back.
  void TakeOver(int64_t now_ns, DeadlineList* over);
  // Moves those for which `which(const Operation*)` is true to `taken`.
  template <typename Which>
  void TakeIf(Which which, DeadlineList* taken) {
    for (DeadlineList& list : lists_) list.Extract(which, [taken](Operation* operation) { taken->Push(operation); });
  }

 private:
  // Returns the index of the highest set bit; 0 also for 0.
  static size_t TopBit(uint64_t word) { return 63 - static_cast<size_t>(__builtin_clzll(word | 1)); }

  int64_t since_ = 0;
  int64_t earliest_ns_ = kNever;
  std::array<DeadlineList, 63> lists_;  // for non-negative numbers
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_DEADLINES_H_
