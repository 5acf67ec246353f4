// A message over a connection's socket is lost: a wake-up, an answer. Expect: it is repeated, or the connection ends;
// neither side sleeps for ever.
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "tests/failnth/calls.h"

namespace farlook::rdma::conformance {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string UnusedShmAddress() {
  static std::atomic<int> next{0};
  return absl::StrCat("shm:///tmp/farlook_wake_", std::random_device()(), "_", next++);
}

class WakeTest : public ConformanceTest {};

TEST_P(WakeTest, ALostWakeUpIsMadeUpForOrEndsTheConnection) {
  StartServer();
  auto client = NewClient();
  bool broken = false;
  bool short_of_memory = false;
  uint32_t errors = 1;
  for (uint32_t error = 0; error < errors; ++error) {
    Pair pair = Connect(client.get());
    while (!(*server_)->Arm()) server_->Pump();
    failnth::Report report = {};
    failnth::Expect({failnth::Kind::kSystemCall, /*place=*/0, /*nth=*/1, error}, &report);
    EXPECT_TRUE(pair.client->PostSend("wake up", ""));
    pair.client->Ring();
    failnth::Forget();
    ASSERT_STREQ(report.name, "sendmsg");
    errors = report.errors;
    if (report.error == EPIPE) {
      broken = true;
      Await(client.get(), Opcode::kDisconnected);
      EXPECT_EQ(pair.client->status().code(), absl::StatusCode::kUnavailable);
      continue;
    }
    short_of_memory = true;
    // The server does not poll without a wake-up.
    pollfd woken = {(*server_)->fd(), POLLIN, 0};
    for (int i = 0; i < 1000 && poll(&woken, 1, /*timeout=*/0) == 0; ++i) client->Pump();
    EXPECT_EQ(woken.revents & POLLIN, POLLIN) << strerror(report.error);
    EXPECT_EQ(Await(server_.get(), Opcode::kReceive).message, "wake up");
  }
  EXPECT_TRUE(broken);
  EXPECT_TRUE(short_of_memory);
}

// Expect: a client whose answer was lost does not wait for it until its deadline.
TEST_P(WakeTest, AnAnswerThatIsLostEndsTheConnection) {
  constexpr uint32_t kBrokenPipe = 2;  // of the errors of sendmsg
  StartServer();
  auto client = NewClient();
  for (uint64_t nth = 1;; ++nth) {
    auto connecting = (*client)->Connect(address_, "hello", kConnectTimeoutMs);
    ASSERT_TRUE(connecting.ok()) << connecting.status();
    const std::unique_ptr<ConnectionRequest> request = NextRequest(client.get());
    ASSERT_NE(request, nullptr);
    failnth::Report report = {};
    failnth::Expect({failnth::Kind::kSystemCall, /*place=*/0, nth, kBrokenPipe}, &report);
    const auto accepted = request->Accept(server_->get(), "welcome", {});
    failnth::Forget();
    ASSERT_TRUE(report.failed) << "none of its calls was a sendmsg";
    if (strcmp(report.name, "sendmsg") != 0) continue;
    ASSERT_EQ(report.error, EPIPE);
    EXPECT_TRUE(accepted.ok()) << accepted.status();
    EXPECT_EQ(Await(client.get(), Opcode::kDisconnected).connection, connecting->get());
    EXPECT_THAT((*connecting)->status().message(), Not(HasSubstr("in time")));
    EXPECT_EQ(Await(server_.get(), Opcode::kDisconnected).connection, accepted->get());
    return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shm, WakeTest, testing::Values(Backend{"shm", UnusedShmAddress, {}}));

}  // namespace
}  // namespace farlook::rdma::conformance
