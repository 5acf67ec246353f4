#include "client/connection/dialer.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::client {
namespace {

// Records the timeouts of attempts to connect.
class TimedEndpoint : public rdma::FakeEndpoint {
 public:
  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(absl::string_view, absl::string_view,
                                                            int64_t timeout_ms) override {
    timeouts_ms.push_back(timeout_ms);
    rdma::FakePeer& peer = peers_.emplace_back();
    peer.endpoint = this;
    return std::make_unique<rdma::FakeConnection>(&peer, rdma::Capabilities());
  }
  std::vector<int64_t> timeouts_ms;

 private:
  std::deque<rdma::FakePeer> peers_;
};

class DialerTest : public testing::Test {
 protected:
  DialerTest() {
    options_.timeout_ms = 60'000;
    options_.liveness_ms = 3'000;
  }

  TimedEndpoint endpoint_;
  ClientOptions options_;
};

// The others refuse at once, as they are no primary yet. The one that does not answer must not take all of the time.
TEST_F(DialerTest, AnAddressOfSeveralIsGivenUpBeforeTheClientsTimeIsOver) {
  Dialer dialer(&endpoint_, "tcp://a:1,tcp://b:1", &options_);
  ASSERT_TRUE(dialer.Dial(/*session=*/0, /*beside=*/true, /*now_ns=*/0).ok());
  ASSERT_TRUE(dialer.DialBeside(/*now_ns=*/50'000'000));
  EXPECT_EQ(endpoint_.timeouts_ms, (std::vector<int64_t>{3'000, 3'000}));
}

TEST_F(DialerTest, TheOnlyAddressHasAllOfTheTime) {
  Dialer dialer(&endpoint_, "tcp://a:1", &options_);
  ASSERT_TRUE(dialer.Dial(/*session=*/0, /*beside=*/false, /*now_ns=*/0).ok());
  EXPECT_EQ(endpoint_.timeouts_ms, (std::vector<int64_t>{60'000}));
}

TEST_F(DialerTest, NoAttemptTakesMoreThanTheClientsTime) {
  options_.timeout_ms = 100;
  Dialer dialer(&endpoint_, "tcp://a:1,tcp://b:1", &options_);
  ASSERT_TRUE(dialer.Dial(/*session=*/0, /*beside=*/true, /*now_ns=*/0).ok());
  EXPECT_EQ(endpoint_.timeouts_ms, (std::vector<int64_t>{100}));
}

}  // namespace
}  // namespace farlook::client
