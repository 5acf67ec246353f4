#include "tests/scale/rxe.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"

namespace farlook::scale {
namespace {

// The scheduler decides whether the kernel wakes a separate thread for a READ: the more clients, the rarer.
bool KernelDecides(const RxeRate& rate) { return !rate.by_message && rate.in_flight == 1 && rate.clients > 1; }

TEST(RxeTest, TheModelAgreesWithWhatWasMeasured) {
  double sum = 0;
  for (int i = 0; i < kRxeRateCount; ++i) {
    const RxeRate& rate = kRxeRates[i];
    const double ratio = Predict(rate) / rate.measured;
    EXPECT_NEAR(ratio, 1, KernelDecides(rate) ? 0.25 : 0.1)
        << rate.workload << (rate.by_message ? " by message, " : ", ") << rate.clients << " clients, " << rate.in_flight
        << " in flight";
    sum += std::abs(ratio - 1);
  }
  EXPECT_LT(sum / kRxeRateCount, 0.06);
}

}  // namespace
}  // namespace farlook::scale
