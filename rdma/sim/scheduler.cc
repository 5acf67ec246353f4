#include "rdma/sim/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace farlook::rdma::sim {

void Scheduler::At(int64_t time_ns, std::function<void()> event) {
  heap_.push_back({time_ns, random_.Next(), std::move(event)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool Scheduler::RunOne(int64_t until_ns) {
  if (heap_.empty() || heap_.front().time_ns > until_ns) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ns_ = std::max(now_ns_, event.time_ns);
  ++events_;
  event.run();
  return true;
}

void Scheduler::RunUntil(int64_t until_ns) {
  while (RunOne(until_ns)) {
  }
  if (until_ns != std::numeric_limits<int64_t>::max()) now_ns_ = std::max(now_ns_, until_ns);
}

}  // namespace farlook::rdma::sim
