#include "rdma/sim/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace farlook::rdma::sim {

void Scheduler::At(int64_t time_ns, std::function<void()> event) {
  size_t run = runs_.size();
  if (free_.empty()) {
    runs_.push_back(std::move(event));
  } else {
    run = free_.back();
    free_.pop_back();
    runs_[run] = std::move(event);
  }
  heap_.push_back({time_ns, random_.Next(), run});
  std::push_heap(heap_.begin(), heap_.end(), Later());
}

bool Scheduler::RunOne(int64_t until_ns) {
  if (heap_.empty() || heap_.front().time_ns > until_ns) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later());
  const Event event = heap_.back();
  heap_.pop_back();
  const std::function<void()> run = std::move(runs_[event.run]);  // it may add others
  runs_[event.run] = nullptr;
  free_.push_back(event.run);
  now_ns_ = std::max(now_ns_, event.time_ns);
  ++events_;
  run();
  return true;
}

void Scheduler::RunUntil(int64_t until_ns) {
  while (RunOne(until_ns)) {
  }
  if (until_ns != std::numeric_limits<int64_t>::max()) now_ns_ = std::max(now_ns_, until_ns);
}

}  // namespace farlook::rdma::sim
