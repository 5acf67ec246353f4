#include "client/op/deadlines.h"

#include <algorithm>

namespace farlook::client {

void Deadlines::TakeOver(int64_t now_ns, DeadlineList* over) {
  now_ns = std::max(now_ns, since_);
  const size_t differs = TopBit(static_cast<uint64_t>(now_ns ^ since_));
  since_ = now_ns;
  for (size_t i = 0; i < differs; ++i) over->Append(&lists_[i]);
  DeadlineList mixed;
  mixed.Append(&lists_[differs]);
  while (Operation* const operation = mixed.Pop()) {
    if (operation->deadline_ns <= now_ns) {
      over->Push(operation);
    } else {
      Add(operation);
    }
  }
  // The time from which the first list that is not empty must be distributed again.
  earliest_ns_ = kNever;
  for (size_t i = 0; i < lists_.size(); ++i) {
    if (lists_[i].empty()) continue;
    earliest_ns_ = ((now_ns >> i) | 1) << i;
    return;
  }
}

}  // namespace farlook::client
