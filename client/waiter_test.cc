#include "client/waiter.h"

#include <utility>

#include "absl/status/status.h"
#include "client/core_testing.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

class WaiterTest : public CoreTest {
 protected:
  absl::Status ConnectRefusedWith(absl::Status why) {
    network_.reject = std::move(why);
    MakeCore();
    // Never asleep: the fake transport has no descriptor.
    return Waiter(core_.get(), /*spin_us=*/3'600'000'000).Connect(/*timeout_ms=*/60'000);
  }
};

// Who may not retry at once, or at all, is told so.
TEST_F(WaiterTest, ConnectSaysWhatIsToBeDone) {
  for (const absl::Status& why :
       {absl::InvalidArgumentError("no such address"), absl::PermissionDeniedError("uid 1000 may not connect"),
        absl::FailedPreconditionError("another version"),
        absl::ResourceExhaustedError("cannot make a socket: Too many open files")}) {
    EXPECT_EQ(ConnectRefusedWith(why), why);
  }
}

TEST_F(WaiterTest, WhateverElseHindersConnectingMayBeOverTheNextTime) {
  EXPECT_EQ(ConnectRefusedWith(absl::InternalError("nonsense")), absl::UnavailableError("nonsense"));
}

}  // namespace
}  // namespace farlook::client
