// Time as the poll-driven cores see it. They are handed a Clock, so that a simulator can hand them its own.
#ifndef FARLOOK_RDMA_CLOCK_H_
#define FARLOOK_RDMA_CLOCK_H_

#include <cstdint>

namespace farlook::rdma {

// Thread safety: any thread may call NowNs().
class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since some fixed point; never goes back, and runs on while the process is stopped.
  virtual int64_t NowNs() const = 0;

  // CLOCK_BOOTTIME, which goes on while the machine is suspended: leases count on it. Lives for ever.
  static const Clock& Real();
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_CLOCK_H_
