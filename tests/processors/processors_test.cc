// A worker sleeps at once where its clients wait for its processor, as polling would keep them from running. On two
// processors it polls, and so does a client. The test counts how often they slept, according to the kernel. That a
// client sleeps too: waiter_test.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "server/base/log.h"
#include "server/daemon/server.h"

namespace farlook {
namespace {

constexpr int64_t kPolledUs = 10'000'000;
constexpr int kPuts = 100;

// The processors that this process may use.
std::vector<int> Processors() {
  cpu_set_t allowed;
  EXPECT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  return processors;
}

// Binds the calling thread, and threads that it starts from now on.
void RunOn(const std::vector<int>& processors) {
  cpu_set_t these;
  CPU_ZERO(&these);
  for (const int processor : processors) CPU_SET(processor, &these);
  ASSERT_EQ(sched_setaffinity(0, sizeof(these), &these), 0);
}

int64_t OwnSleeps() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

int64_t SleepsOfTheWorker() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "worker0") continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "voluntary_ctxt_switches:") continue;
      int64_t sleeps = 0;
      status >> sleeps;
      return sleeps;
    }
  }
  ADD_FAILURE() << "there is no worker";
  return 0;
}

struct Sleeps {
  int64_t client, worker;
};

// Returns the sleeps of as many puts as kPuts, one after the other, with both sides set to poll for long.
Sleeps OfPuts(int of_server, int of_client) {
  server::SetLogLevel(server::LogLevel::kNone);
  server::ServerOptions options;
  options.listen = {rdma::UnusedTestAddress()};
  options.memory_bytes = 64 << 20;
  options.workers = 1;
  options.spin_us = kPolledUs;
  options.huge_pages = rdma::HugePages::kNone;
  const std::vector<int> all = Processors();
  RunOn({of_server});
  const auto server = *server::Server::Start(options);
  RunOn({of_client});
  auto client = *Client::Connect(server->addresses()[0], {.timeout_ms = 60'000, .spin_us = kPolledUs});
  EXPECT_TRUE(client->Put("key", "the first one tells both where the other runs").ok());
  EXPECT_TRUE(client->Put("key", "value").ok());
  const Sleeps before = {OwnSleeps(), SleepsOfTheWorker()};
  for (int i = 0; i < kPuts; ++i) EXPECT_TRUE(client->Put("key", "value").ok());
  const Sleeps sleeps = {OwnSleeps() - before.client, SleepsOfTheWorker() - before.worker};
  client.reset();
  server->Stop();
  RunOn(all);
  return sleeps;
}

// If the scheduler runs a woken client at once, the worker finds the next request before it sleeps. So it may not sleep
// in one round, but a worker that polls sleeps in none.
TEST(ProcessorsTest, OnOneProcessorTheWorkerSleepsAtOnce) {
  const std::vector<int> processors = Processors();
  ASSERT_FALSE(processors.empty());
  int64_t sleeps = 0;
  for (int round = 0; round < 10 && sleeps <= kPuts / 2; ++round) {
    sleeps = std::max(sleeps, OfPuts(processors[0], processors[0]).worker);
  }
  EXPECT_GT(sleeps, kPuts / 2);
}

TEST(ProcessorsTest, OnTwoProcessorsBothPoll) {
  const std::vector<int> processors = Processors();
  ASSERT_GE(processors.size(), 2u) << "this test asks for two processors, as the others do";
  const Sleeps sleeps = OfPuts(processors[0], processors[1]);
  EXPECT_LT(sleeps.client, kPuts / 2);
  EXPECT_LT(sleeps.worker, kPuts / 2);
}

}  // namespace
}  // namespace farlook
