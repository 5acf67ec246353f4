// Virtual time: the queue of future events.
//
// An event may run others before it returns (by RunUntil()): this is how a server that is stopped between two stores
// lets the others go on. Events of one moment run in random order.
#ifndef FARLOOK_RDMA_SIM_SCHEDULER_H_
#define FARLOOK_RDMA_SIM_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "rdma/sim/random.h"

namespace farlook::rdma::sim {

// Thread safety: one thread.
class Scheduler {
 public:
  explicit Scheduler(uint64_t seed) : random_(seed) {}

  int64_t now_ns() const { return now_ns_; }
  Random& random() { return random_; }
  bool idle() const { return heap_.empty(); }
  // Time at which the next event is due. REQUIRES !idle().
  int64_t next_ns() const { return heap_.front().time_ns; }
  uint64_t events() const { return events_; }

  void At(int64_t time_ns, std::function<void()> event);
  void After(int64_t delay_ns, std::function<void()> event) { At(now_ns_ + delay_ns, std::move(event)); }

  // Lets time pass while a party works; events that fall due meanwhile are late.
  void Spend(int64_t ns) { now_ns_ += ns; }

  // Runs the next event if it is due until then. Returns false, and does nothing, if none is.
  bool RunOne(int64_t until_ns);
  // Runs all events due until then; afterwards it is that time, or later.
  void RunUntil(int64_t until_ns);

 private:
  // The part that the heap moves; the function to run stays in place.
  struct Event {
    int64_t time_ns;
    uint64_t order;  // random
    size_t run;      // index
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.order > b.order;
    }
  };

  Random random_;
  int64_t now_ns_ = 1'000'000'000;
  uint64_t events_ = 0;
  std::vector<Event> heap_;
  std::vector<std::function<void()>> runs_;
  std::vector<size_t> free_;  // of runs_
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_SCHEDULER_H_
