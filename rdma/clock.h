// The clock of the poll-driven code. It is passed in, so that a simulator can pass its own.
#ifndef FARLOOK_RDMA_CLOCK_H_
#define FARLOOK_RDMA_CLOCK_H_

#include <cstdint>

namespace farlook::rdma {

// Thread safety: any thread may call NowNs().
class Clock {
 public:
  virtual ~Clock() = default;

  // Returns nanoseconds since some fixed point; never goes back, and runs on while the process is stopped.
  virtual int64_t NowNs() const = 0;

  // CLOCK_BOOTTIME, which runs on while the machine is suspended: leases rely on it. Never destroyed.
  static const Clock& Real();
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_CLOCK_H_
