// The link between a client and its server is cut, for a while or for ever (tests/vm, --links=2).
//
// The server listens on shared memory too, for an observer who does not depend on the link.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/faults/await.h"
#include "tests/faults/device.h"
#include "tests/faults/load.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

using std::chrono::steady_clock;

class LinkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string local = absl::StrCat("shm:///tmp/farlook_link_", getpid());
    server_ = new ServerProcess({"--memory=64MiB", "--counter_memory=0", "--listen=" + local});
    observer_ = Client::Connect(local)->release();
  }
  static void TearDownTestSuite() {
    delete observer_;
    delete server_;
  }
  LinkTest() {
    EXPECT_TRUE(Await([] { return ServerStat(observer_, "connections") == 1; }));
    EXPECT_TRUE(Await([] { return DeviceObjectsOf(server_->pid()).queue_pairs == 0; }));
  }
  ~LinkTest() override { Link("up"); }

  static void Link(const char* how) { ASSERT_EQ(system(absl::StrCat("link ", how).c_str()), 0); }

  static std::unique_ptr<Client> Connect(int64_t timeout_ms) {
    ClientOptions options;
    options.timeout_ms = timeout_ms;
    auto client = Client::Connect(server_->address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static void ExpectAllEndsWellWhenCutFor(int64_t ms);

  static inline ServerProcess* server_ = nullptr;
  static inline Client* observer_ = nullptr;
};

// Operations whose time is not over when the link is back end as if nothing had been.
void LinkTest::ExpectAllEndsWellWhenCutFor(int64_t ms) {
  auto client = Connect(/*timeout_ms=*/180'000);
  Load load(client.get(), absl::StrCat("cut", ms), 180'000);
  std::atomic<bool> working{false}, mended{false}, noticed{true};
  std::thread disturber([&] {
    Await([&] { return working.load(); });
    // First the answers are lost only: what was done for the client and will be asked for again.
    Link("mute");
    usleep(200'000);
    Link("cut");
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    // The server knows within its --liveness, 3 s.
    if (ms >= 10'000) noticed = Await([] { return ServerStat(observer_, "connections") == 1; });
    Link("up");
    mended = true;
  });
  uint64_t before = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(200);
  load.Run([&] {
    working = load.ended() > 100;
    if (!mended || client->stats().reconnects == 0) before = load.ended();
    return load.ended() < before + 100 && steady_clock::now() < end;
  });
  disturber.join();
  EXPECT_TRUE(noticed) << "the server did not notice that its client was gone";
  EXPECT_GE(client->stats().reconnects, 1u);
  EXPECT_EQ(load.ended(absl::StatusCode::kOk), load.ended());
  load.Check(observer_);
  EXPECT_EQ(ServerStat(observer_, "connections"), 2);
}

TEST_F(LinkTest, CutForASecondItIsAsIfNothingHadBeen) { ExpectAllEndsWellWhenCutFor(1'000); }

TEST_F(LinkTest, CutForTenSecondsItIsAsIfNothingHadBeen) { ExpectAllEndsWellWhenCutFor(10'000); }

TEST_F(LinkTest, CutForEverBothSidesKnowAndNothingIsLeft) {
  // siw connects within rdma_connect(), and keeps its caller for as long as TCP tries: two minutes, usually.
  std::ofstream("/proc/sys/net/ipv4/tcp_syn_retries") << 1;
  auto client = Connect(/*timeout_ms=*/60'000);
  EXPECT_EQ(DeviceObjectsOf(server_->pid()).queue_pairs, 1);
  Load load(client.get(), "ever", 1'000);
  std::atomic<bool> working{false}, server_knows{false};
  std::thread disturber([&] {
    Await([&] { return working.load(); });
    Link("cut");
    server_knows = AwaitAndTell("the server", [&] { return ServerStat(observer_, "connections") == 1; });
  });
  uint64_t failed = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(200);
  load.Run([&] {
    working = load.ended() > 100;
    failed = load.ended() - load.ended(absl::StatusCode::kOk);
    return (!server_knows || failed < 100) && steady_clock::now() < end;
  });
  disturber.join();
  EXPECT_TRUE(server_knows);
  EXPECT_GE(failed, 100u);
  EXPECT_LT(load.longest_s(), 30) << "with time limits of 1 s";
  load.Check(observer_);
  EXPECT_TRUE(Await([] { return DeviceObjectsOf(server_->pid()).queue_pairs == 0; }));
  const auto begun = steady_clock::now();
  client.reset();
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(30));
  EXPECT_EQ(DeviceObjectsOf(getpid()).queue_pairs, 0);
  EXPECT_EQ(DeviceObjectsOf(getpid()).memory_regions, 0);
}

}  // namespace
}  // namespace farlook
