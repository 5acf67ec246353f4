#include "client/api/waiter.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/api/batch.h"
#include "client/core/cores.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"
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

// If a retry cannot help, or not at once, the status says so.
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

// A group enters another epoch just after its primary has sent its Welcome: the connection is ready and lost at once.
TEST_F(WaiterTest, WhatIsLostAsSoonAsItIsReadyIsConnectedAnew) {
  server_->table().ShowEpoch(kv::EpochWord::Open(5));
  network_.capabilities.local = true;
  network_.when_dialled = [this] { server_->group_epoch = network_.connects == 1 ? 4 : 5; };
  MakeCore();
  Cores cores(core_.get());
  // Each turn also looks at the word; it would sleep only if there were no work.
  EXPECT_EQ(Waiter(&cores, /*spin_us=*/0).Connect(core_.get(), /*timeout_ms=*/1000), absl::OkStatus());
  EXPECT_EQ(network_.connects, 2u);
}

// Otherwise the server could not run to answer, if the kernel lets it wait for this processor.
TEST_F(WaiterTest, OnTheServersProcessorItSleepsAtOnce) {
  for (const rdma::PeerActivity active :
       {rdma::PeerActivity::kNone, rdma::PeerActivity::kElsewhere, rdma::PeerActivity::kHere}) {
    auto endpoint = network_.CreateEndpoint();
    auto* const fake = static_cast<rdma::FakeEndpoint*>(endpoint.get());
    fake->activity = active;
    core_ = std::make_unique<ClientCore>(std::move(endpoint), "fake://", options_, clock_, /*random_seed=*/1);
    core_->Connect();
    int looks = 0;
    Cores cores(core_.get());
    Waiter(&cores, /*spin_us=*/3'600'000'000).Wait([&] { return ++looks > 1000 || fake->arms > 0; });
    EXPECT_EQ(fake->arms > 0, active == rdma::PeerActivity::kHere);
    core_.reset();
  }
}

// A call that may have to wait longer than its user wants.
class WhileWaitingTest : public WaiterTest {
 protected:
  static constexpr int64_t kNeverAsleepUs = 3'600'000'000;  // as above

  // Puts `keys` in a batch; no request is answered.
  absl::Status PutAll(std::function<int64_t()> while_waiting, const std::vector<std::string>& keys, int* ended) {
    Cores cores(core_.get());
    Waiter waiter(&cores, kNeverAsleepUs, std::move(while_waiting));
    return Batch(&cores, &waiter)
        .Run(
            Kind::kPut, keys.size(), /*timeout_ms=*/3'600'000,
            [&](size_t i, Operation* operation) { operation->key = keys[i]; },
            [&](size_t, Operation* operation) {
              EXPECT_EQ(operation->status.code(), absl::StatusCode::kDeadlineExceeded) << operation->status;
              operation->status = absl::OkStatus();
              ++*ended;
            });
  }
};

TEST_F(WhileWaitingTest, ItIsAskedAgainAndAgainAndEndsTheCall) {
  Connect();
  network_.hold_requests = true;
  auto other = Start(Kind::kPut, "other", "", /*timeout_ms=*/3'600'000);
  int asked = 0;
  int ended = 0;
  // More than are in flight at once.
  const std::vector<std::string> keys(1000, "key");
  const absl::Status status = PutAll([&] { return ++asked < 3 ? 1 : -1; }, keys, &ended);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(ended, 1000);
  EXPECT_EQ(asked, 3);
  // Expect: other operations of the user continue.
  EXPECT_FALSE(other->done());
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_EQ(other->status(), absl::OkStatus());
}

TEST_F(WhileWaitingTest, ItMayUseTheCores) {
  Connect();
  ASSERT_EQ(Put("there", "value"), absl::OkStatus());
  network_.hold_requests = true;
  int ended = 0, ended_within = 0, asked = 0;
  std::string value;
  const auto while_waiting = [&]() -> int64_t {
    // Simulates another thread whose turn it is: a get, which needs no message, and a batch, which waits in vain.
    Cores cores(core_.get());
    Waiter waiter(&cores, kNeverAsleepUs);
    Operation get;
    get.key = "there";
    get.to.string = &value;
    get.blocking = true;
    core_->StartUntil(&get, core_->DeadlineFromNow(1000));
    EXPECT_TRUE(waiter.WaitFor({&get, 1}));
    PutAll([] { return -1; }, std::vector<std::string>(100, "within"), &ended_within).IgnoreError();
    return ++asked < 3 ? 1 : -1;
  };
  PutAll(while_waiting, std::vector<std::string>(100, "key"), &ended).IgnoreError();
  EXPECT_EQ(value, "value");
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(ended, 100);
  EXPECT_EQ(ended_within, 300);
}

// Its operations are not those of the outer batch.
TEST_F(WhileWaitingTest, OneBatchMayRunWithinAnother) {
  Connect();
  network_.hold_requests = true;
  int ended = 0;
  Cores cores(core_.get());
  std::unique_ptr<Batch> batch;
  bool within = false;
  const auto run = [&](absl::string_view key, size_t count) {
    return batch->Run(
        Kind::kPut, count, /*timeout_ms=*/3'600'000, [&](size_t, Operation* operation) { operation->key = key; },
        [&](size_t, Operation* operation) {
          EXPECT_EQ(operation->key, key);
          operation->status = absl::OkStatus();
          ++ended;
        });
  };
  Waiter waiter(&cores, kNeverAsleepUs, [&]() -> int64_t {
    if (!std::exchange(within, true)) run("within", 200).IgnoreError();
    return -1;
  });
  batch = std::make_unique<Batch>(&cores, &waiter);
  run("outer", 100).IgnoreError();
  EXPECT_EQ(ended, 300);
}

TEST_F(WhileWaitingTest, ItEndsAnAttemptToConnect) {
  network_.reject = absl::UnavailableError("not yet");
  MakeCore();
  Cores cores(core_.get());
  Waiter waiter(&cores, kNeverAsleepUs, [] { return -1; });
  EXPECT_EQ(waiter.Connect(core_.get(), /*timeout_ms=*/3'600'000, /*wait_for_server=*/true),
            absl::UnavailableError("not yet"));
}

}  // namespace
}  // namespace farlook::client
