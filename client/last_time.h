// A clock that remembers its last reading. Reading a real clock costs some 28 ns, a fifth of a Get on shm; where "not
// later than now" is enough, the last reading is free.
#ifndef FARLOOK_CLIENT_LAST_TIME_H_
#define FARLOOK_CLIENT_LAST_TIME_H_

#include <cstdint>

#include "rdma/clock.h"

namespace farlook::client {

// Thread safety: one thread.
class LastTime {
 public:
  explicit LastTime(const rdma::Clock& clock) : clock_(clock), last_ns_(clock.NowNs()) {}

  // The time, in nanoseconds.
  int64_t NowNs() { return last_ns_ = clock_.NowNs(); }
  // What NowNs() said last: at most the time.
  int64_t last_ns() const { return last_ns_; }
  const rdma::Clock& clock() const { return clock_; }

 private:
  const rdma::Clock& clock_;
  int64_t last_ns_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LAST_TIME_H_
