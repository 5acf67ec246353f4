// Finding the operations whose time is over, and when the others' will be.
//
//     Deadlines deadlines(now_ns);
//     waiting.Extract(deadlines.over(), expired);
//     return deadlines.earliest_ns();
#ifndef FARLOOK_CLIENT_DEADLINES_H_
#define FARLOOK_CLIENT_DEADLINES_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "client/operation.h"

namespace farlook::client {

// Of one look at all operations, at one time. Thread safety: one thread.
class Deadlines {
 public:
  explicit Deadlines(int64_t now_ns) : now_ns_(now_ns) {}

  // Whether the operation's time is over. If not, its deadline counts for earliest_ns().
  bool Over(const Operation& operation) {
    if (operation.deadline_ns <= now_ns_) return true;
    earliest_ns_ = std::min(earliest_ns_, operation.deadline_ns);
    return false;
  }
  // The same as a function, for OperationQueue::Extract. It refers to this.
  auto over() {
    return [this](const Operation* operation) { return Over(*operation); };
  }

  // The earliest deadline that is still to come, of those asked about; the largest number if there is none.
  int64_t earliest_ns() const { return earliest_ns_; }

 private:
  const int64_t now_ns_;
  int64_t earliest_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_DEADLINES_H_
