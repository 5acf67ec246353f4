// The interface of a Soft-RoCE device goes down and up while a client works on the server's own host (tests/vm).
//
// Between two addresses of one host there is a route also while the interface is down. Messages that the connection
// manager sends then break the device: see "A port that is down" in docs/design-notes.md.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/await.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

void Interface(const char* state) { ASSERT_EQ(system(absl::StrCat("ip link set v0 ", state).c_str()), 0); }

TEST(PortTest, AClientOnTheServersHostComesBackWhenTheInterfaceIsUp) {
  constexpr int kRounds = 2;
  const ServerProcess server({"--memory=64MiB", "--counter_memory=0"});
  const std::unique_ptr<Client> client = MustConnect(server.address(), /*timeout_ms=*/2'000);
  ASSERT_TRUE(client->Put("key", "value").ok());
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Interface("down");
    // Expect: the client tries to connect, and reports the reason.
    bool explained = false;
    for (int i = 0; i < 10; ++i) {
      const absl::Status status = client->Get("key").status();
      EXPECT_FALSE(status.ok());
      explained |= absl::StrContains(status.message(), "the port of");
      usleep(300'000);
    }
    EXPECT_TRUE(explained);
    Interface("up");
    // Expect: it reconnects, and so does another client.
    absl::Status status;
    ASSERT_TRUE(Await([&] { return (status = client->Get("key").status()).ok(); })) << status;
    EXPECT_TRUE(MustConnect(server.address())->Get("key").ok());
  }
}

}  // namespace
}  // namespace farlook
