// The deadlines of all operations in flight, whichever engine has them: how many there are costs nothing.
//
// A radix heap. An operation is in the list of the highest bit in which its deadline differs from `since_`, the time of
// the last look. When the time comes to differ in bit k, all of the lists below k are over, those above are not, and
// list k is dealt out anew, each to a lower list. So an operation is moved at most once for each bit, and in practice
// not at all: most end long before.
#ifndef FARLOOK_CLIENT_DEADLINES_H_
#define FARLOOK_CLIENT_DEADLINES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "client/operation.h"

namespace farlook::client {

// Thread safety: one thread. The operations take themselves out where they end.
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

  // No deadline is earlier.
  int64_t earliest_ns() const { return earliest_ns_; }
  // Moves those whose time is over at `now_ns` to `over`. REQUIRES that time does not go back.
  void TakeOver(int64_t now_ns, DeadlineList* over);

 private:
  // Of its highest set bit; 0 also for 0.
  static size_t TopBit(uint64_t word) { return 63 - static_cast<size_t>(__builtin_clzll(word | 1)); }

  int64_t since_ = 0;
  int64_t earliest_ns_ = kNever;
  std::array<DeadlineList, 63> lists_;  // of numbers that are not negative
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_DEADLINES_H_
