#include "server/acceptor/acceptor_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

// Counts how often it was read.
class CountingClock final : public rdma::Clock {
 public:
  int64_t NowNs() const override {
    ++reads;
    return int64_t{1} << 40;
  }
  mutable std::atomic<int> reads{0};
};

// Returns whether the condition became true; the bound is long enough for a busy machine.
template <typename Condition>
bool ComesTrue(Condition condition) {
  for (int i = 0; i < 30'000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

class AcceptorThreadTest : public testing::Test {
 protected:
  AcceptorThreadTest() { listener_.calls.push_back(&call_); }

  CountingClock clock_;
  FakeListener listener_;
  FakeCall call_;
  Acceptor acceptor_{{&listener_}, &clock_};  // not open: it rejects every client
  AcceptorThread thread_{&acceptor_, {&listener_}, &clock_};
};

TEST_F(AcceptorThreadTest, WhoComesIsTaken) {
  ASSERT_TRUE(thread_.ok());
  thread_.Start(/*patience_ms=*/0);
  EXPECT_TRUE(ComesTrue([&] { return acceptor_.rejected() == 1; }));
  thread_.Stop();
  EXPECT_TRUE(call_.rejected);
}

TEST_F(AcceptorThreadTest, WhileItIsPatientNobodyIsTakenAndItEndsAtOnce) {
  for (int i = 0; i < 100; ++i) {  // many times: without patience, sometimes a client would be taken before the stop
    thread_.Start(/*patience_ms=*/std::numeric_limits<int>::max());
    thread_.Stop();
  }
  EXPECT_EQ(acceptor_.rejected(), 0u);
  // Expect: the client that waited is taken after the next start.
  thread_.Start(/*patience_ms=*/0);
  EXPECT_TRUE(ComesTrue([&] { return acceptor_.rejected() == 1; }));
  thread_.Stop();
}

TEST_F(AcceptorThreadTest, WhenAClientIsGoneItWakesAndGivesMemoryBack) {
  thread_.Start(/*patience_ms=*/0);
  ASSERT_TRUE(ComesTrue([&] { return acceptor_.rejected() == 1; }));
  const int reads = clock_.reads;  // by the acceptor, for its log
  thread_.ClientGone();
  EXPECT_TRUE(ComesTrue([&] { return clock_.reads > reads; }));
  thread_.Stop();
}

}  // namespace
}  // namespace farlook::server
