// While a primary fills a backup, it yields its processor between copying steps: to its worker, which sends the copies,
// and on this host to the backup. Only benchmarks show the gain. This test checks the yields by replacing the C
// library's sched_yield().
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "kv/wire/message.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "server/testing/test_client.h"

namespace {

std::atomic<int> yields{0};  // by copying threads; a contended mutex may add a few

}  // namespace

extern "C" int sched_yield() noexcept {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  if (absl::string_view(name) == "group") yields.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace farlook::server {
namespace {

constexpr int kItems = 5'000;

class RefillYieldTest : public ::testing::Test {
 protected:
  RefillYieldTest() {
    SetLogLevel(LogLevel::kNone);
    char name[] = "/tmp/farlook-test-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~RefillYieldTest() override {
    backup_.reset();
    primary_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string Address(absl::string_view name) const { return absl::StrCat("shm://", directory_, "/", name); }
  std::unique_ptr<Server> Start(absl::string_view name) const {
    ServerOptions options;
    options.listen = {Address(name)};
    options.memory_bytes = 32 << 20;
    options.huge_pages = rdma::HugePages::kNone;
    options.group = absl::StrCat("file://", directory_, "/kv");
    options.spin_us = 0;  // with a longer spin, a polling backup yields too
    options.deposed = [] {};
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) (*server)->JoinGroup();
    return server.ok() ? *std::move(server) : nullptr;
  }
  // Waits for `done`, with a bound.
  template <typename Done>
  static void Await(Done done) {
    for (int i = 0; i < 10'000 && !done(); ++i) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_TRUE(done());
  }

  std::string directory_;
  std::unique_ptr<Server> primary_, backup_;
};

TEST_F(RefillYieldTest, WhoCopiesYieldsItsProcessorAfterAFewBuckets) {
  primary_ = Start("a");
  ASSERT_NE(primary_, nullptr);
  Await([this] { return TestClient(Address("a")).status().ok(); });
  TestClient client(Address("a"));
  for (int i = 1; i <= kItems; ++i) {
    kv::Request put;
    put.type = kv::RequestType::kPut;
    put.number = static_cast<uint64_t>(i);
    const std::string key = absl::StrCat("key", i);
    put.key = key;
    put.value = "value";
    ASSERT_EQ(client.Ask(put).code, kv::Code::kOk);
  }
  const int before = yields.load(std::memory_order_relaxed);
  backup_ = Start("b");
  ASSERT_NE(backup_, nullptr);
  Await([this] { return primary_->Stats("group_members") == "group_members 2\n"; });
  EXPECT_GE(yields.load(std::memory_order_relaxed) - before, kItems / 100);
}

}  // namespace
}  // namespace farlook::server
