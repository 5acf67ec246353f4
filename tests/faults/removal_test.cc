// The device of a client, or of its server, is removed under load and returns (tests/vm, --links=2).
//
// Soft-RoCE and siw can only be removed when no process has them open any more: that `rdma link delete` returns shows
// that nothing is kept.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/await.h"
#include "tests/faults/load.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

constexpr int kRounds = 2;
constexpr int64_t kTimeoutMs = 60'000;

int Shell(const std::string& command) { return std::system(command.c_str()); }

// A device, and its interface.
struct Adapter {
  const char* device_variable;
  const char* interface;

  std::string name() const {
    const char* const name = std::getenv(device_variable);
    return name != nullptr ? name : "none";
  }
  // Waits until it is gone.
  bool Remove() const {
    return Shell(absl::StrCat("timeout ", std::chrono::seconds(kBound).count(), " rdma link delete ", name())) == 0;
  }
  bool Add() const {
    const std::string type = name().substr(0, name().find_first_of("0123456789"));
    return Shell(absl::StrCat("rdma link add ", name(), " type ", type, " netdev ", interface)) == 0;
  }
};
constexpr Adapter kServers = {"FARLOOK_RDMA_DEVICE", "v1"};
constexpr Adapter kClients = {"FARLOOK_RDMA_PEER_DEVICE", "v0"};

// Counts the queue pairs of this process.
int QueuePairsOn(const Adapter& adapter) {
  const std::string lines =
      absl::StrCat("rdma resource show qp link ", adapter.name(), " | grep -c 'pid ", getpid(), " '");
  FILE* const pipe = popen(lines.c_str(), "r");
  int count = -1;
  if (pipe == nullptr || std::fscanf(pipe, "%d", &count) != 1) ADD_FAILURE() << "`rdma` does not tell";
  if (pipe != nullptr) pclose(pipe);
  return count;
}

class RemovalTest : public testing::Test {
 protected:
  // Works while the device is removed and returns, and until the client works again. Expect: all answers are correct.
  void WorkWhile(const Adapter& adapter);

  const std::string local_ = absl::StrCat("shm:///tmp/farlook_removal_", getpid());
  ServerProcess server_{{"--memory=64MiB", "--counter_memory=64KiB", "--listen=" + local_}};
  const std::unique_ptr<Client> observer_ = MustConnect(local_, kTimeoutMs);
};

void RemovalTest::WorkWhile(const Adapter& adapter) {
  auto client = MustConnect(server_.address(), kTimeoutMs);
  ASSERT_TRUE(client->CreateCounter("counter").ok());
  ASSERT_TRUE(client->FetchAdd("counter", 1).ok());
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE(client->Put("large", large).ok());
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    Load load(client.get(), absl::StrCat("round", round, "_"), kTimeoutMs);
    std::atomic<bool> working{false}, ended{false};
    bool removed = false, added = false;
    std::thread remover([&] {
      Await([&] { return working.load(); });
      removed = adapter.Remove();
      added = removed && adapter.Add();
      ended = true;
    });
    const uint64_t reconnects = client->stats().reconnects;
    uint64_t before = 0;
    const auto end = steady_clock::now() + 3 * kBound;
    load.Run([&] {
      working = load.ended() > 100;
      const uint64_t done = load.ended(absl::StatusCode::kOk);
      if (!ended || client->stats().reconnects == reconnects) before = done;
      return done < before + 100 && steady_clock::now() < end;
    });
    remover.join();
    ASSERT_TRUE(removed) << "somebody keeps " << adapter.name() << " open";
    ASSERT_TRUE(added);
    EXPECT_GE(load.ended(absl::StatusCode::kOk), before + 100) << "it did not come back";
    load.Check(observer_.get());
    // Memory that is registered again: long values that the server pulls, buffers for long values, and counters.
    absl::StatusOr<Value> found;
    ASSERT_TRUE(Await([&] { return (found = client->Get("large")).ok(); })) << found.status();
    EXPECT_TRUE(found->data == large);
    EXPECT_TRUE(client->Put("large", large).ok());
    const absl::StatusOr<int64_t> count = client->FetchAdd("counter", 1);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, 1 + round);
    // The server's own atomics.
    ASSERT_TRUE(observer_->FetchAdd("counter", 0).ok());
    EXPECT_EQ(observer_->ReadCounter("counter").value_or(-1), 2 + round);
  }
  EXPECT_EQ(client->stats().incarnation_changes, 0u);
}

TEST_F(RemovalTest, OfTheServersDeviceItListensOnTheNextOne) { WorkWhile(kServers); }

TEST_F(RemovalTest, OfTheClientsDeviceItGoesOnWithTheNextOne) { WorkWhile(kClients); }

// The last: afterwards packets between the two addresses take the short way, each through the server's device.
TEST_F(RemovalTest, OfTheRouteTheClientGoesOnThroughAnotherDevice) {
  auto client = MustConnect(server_.address(), kTimeoutMs);
  ASSERT_TRUE(client->Put("key", "before").ok());
  EXPECT_EQ(QueuePairsOn(kClients), 1);
  while (Shell("ip rule del pref 10 2>/dev/null") == 0) {
  }
  server_.Signal(SIGKILL);
  server_.Wait();
  server_.Restart();
  const std::string large(1 << 20, 'x');
  absl::Status status;
  EXPECT_TRUE(Await([&] { return (status = client->Put("large", large).status()).ok(); })) << status;
  const absl::StatusOr<Value> found = client->Get("large");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->data == large);
  EXPECT_EQ(QueuePairsOn(kClients), 0);
  EXPECT_EQ(QueuePairsOn(kServers), 1);
}

}  // namespace
}  // namespace farlook
