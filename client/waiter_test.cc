#include "client/waiter.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "client/core_testing.h"
#include "client/cores.h"
#include "gtest/gtest.h"
#include "kv/epoch_word.h"
#include "rdma/fake/fake_transport.h"
#include "rdma/transport.h"

namespace farlook::client {
namespace {

class WaiterTest : public CoreTest {
 protected:
  absl::Status ConnectRefusedWith(absl::Status why) {
    network_.reject = std::move(why);
    MakeCore();
    // Never asleep: the fake transport has no descriptor.
    Cores cores(core_.get());
    return Waiter(&cores, /*spin_us=*/3'600'000'000).Connect(core_.get(), /*timeout_ms=*/60'000);
  }
};

// Who may not retry at once, or at all, is told so.
TEST_F(WaiterTest, ConnectSaysWhatIsToBeDone) {
  for (const absl::Status& why :
       {absl::InvalidArgumentError("no such address"), absl::PermissionDeniedError("uid 1000 may not connect"),
        absl::UnauthenticatedError("nobody knows this secret"), absl::FailedPreconditionError("another version"),
        absl::ResourceExhaustedError("cannot make a socket: Too many open files")}) {
    EXPECT_EQ(ConnectRefusedWith(why), why);
  }
}

TEST_F(WaiterTest, WhateverElseHindersConnectingMayBeOverTheNextTime) {
  EXPECT_EQ(ConnectRefusedWith(absl::InternalError("nonsense")), absl::UnavailableError("nonsense"));
}

// A group enters another epoch just after its primary has said Welcome: the connection is ready and lost at once.
TEST_F(WaiterTest, WhatIsLostAsSoonAsItIsReadyIsConnectedAnew) {
  server_->table().ShowEpoch(kv::EpochWord::Open(5));
  network_.capabilities.local = true;
  network_.when_dialled = [this] { server_->group_epoch = network_.connects == 1 ? 4 : 5; };
  MakeCore();
  Cores cores(core_.get());
  // Each turn looks at the word too; it would sleep only where nothing is to be done.
  EXPECT_EQ(Waiter(&cores, /*spin_us=*/0).Connect(core_.get(), /*timeout_ms=*/1000), absl::OkStatus());
  EXPECT_EQ(network_.connects, 2u);
}

// Else the server could not run to answer, where the kernel has it wait for this very processor.
TEST_F(WaiterTest, OnTheServersProcessorItSleepsAtOnce) {
  for (const rdma::Heard heard : {rdma::Heard::kNobody, rdma::Heard::kElsewhere, rdma::Heard::kHere}) {
    auto endpoint = network_.CreateEndpoint();
    auto* const fake = static_cast<rdma::FakeEndpoint*>(endpoint.get());
    fake->where_heard = heard;
    core_ = std::make_unique<ClientCore>(std::move(endpoint), "fake://", options_, clock_, /*random_seed=*/1);
    core_->Connect();
    int looks = 0;
    Cores cores(core_.get());
    Waiter(&cores, /*spin_us=*/3'600'000'000).Wait([&] { return ++looks > 1000 || fake->arms > 0; });
    EXPECT_EQ(fake->arms > 0, heard == rdma::Heard::kHere);
    core_.reset();
  }
}

}  // namespace
}  // namespace farlook::client
