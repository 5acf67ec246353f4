// A clock that remembers its last reading. Reading a real clock costs some 28 ns, a fifth of a Get on shm. If "not
// later than now" is sufficient, the last reading is free.
#ifndef FARLOOK_CLIENT_OP_LAST_TIME_H_
#define FARLOOK_CLIENT_OP_LAST_TIME_H_

#include <cstdint>

#include "rdma/clock.h"

namespace farlook::client {

// Thread safety: one thread.
class LastTime {
 public:
  explicit LastTime(const rdma::Clock& clock) : clock_(clock), last_ns_(clock.NowNs()) {}

  // Reads the clock; in nanoseconds.
  int64_t NowNs() { return last_ns_ = clock_.NowNs(); }
  // Returns the last reading, which is not later than now.
  int64_t last_ns() const { return last_ns_; }
  const rdma::Clock& clock() const { return clock_; }

 private:
  const rdma::Clock& clock_;
  int64_t last_ns_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_LAST_TIME_H_
