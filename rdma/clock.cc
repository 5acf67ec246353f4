#include "rdma/clock.h"

#include <ctime>

namespace farlook::rdma {
namespace {

class RealClock final : public Clock {
 public:
  int64_t NowNs() const override {
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace farlook::rdma
