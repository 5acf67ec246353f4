// The public client in a child of fork().
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/api/client_testing.h"
#include "farlook/admin.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "farlook/memory.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

using ForkTest = ClientTest;

// Forks a child that calls `act` and ends without destructors. Its failed expectations fail the test.
void InChild(absl::FunctionRef<void()> act) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    act();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "see the child's failures above";
}

bool IsRefused(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && status.message().find("fork") != absl::string_view::npos;
}

// Puts and reads back keys that begin with `label`, and checks that nothing was lost or repeated.
void ExpectWorks(Client* client, const std::string& label) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat(label, i);
    ASSERT_TRUE(client->Put(key, key, {.condition = Condition::IfAbsent()}).ok()) << key;
    const auto got = client->Get(key);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->data, key);
  }
  EXPECT_EQ(client->stats().reconnects, 0);
  EXPECT_EQ(client->stats().resent_requests, 0);
}

size_t Descriptors() {
  DIR* const all = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

size_t MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:") != std::string::npos ? 1 : 0;
  return count;
}

TEST_F(ForkTest, ACopyThatIsDestroyedLeavesTheParentsConnection) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ExpectWorks(client.get(), "before");
  InChild([&] { client.reset(); });
  ExpectWorks(client.get(), "after");
  InChild([&] { InChild([&] { client.reset(); }); });
  ExpectWorks(client.get(), "last");
}

TEST_F(ForkTest, OperationsInFlightGoOnInTheParent) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  server.SetSilent(true);
  std::vector<std::unique_ptr<PutOperation>> puts;
  for (int i = 0; i < 40; ++i) {
    puts.push_back(std::make_unique<PutOperation>(absl::StrCat("key", i), std::string(i * 200, 'x')));
    client->Start(puts.back().get());
  }
  std::array<AsyncOperation*, 8> done;
  InChild([&] {
    EXPECT_EQ(client->in_flight(), 0);
    EXPECT_EQ(client->Wait(done), 0);
    client.reset();
    puts.clear();
  });
  server.SetSilent(false);
  while (client->in_flight() > 0) {
    for (size_t i = client->Wait(done); i > 0; --i) EXPECT_TRUE(done[i - 1]->status().ok()) << done[i - 1]->status();
  }
  ExpectWorks(client.get(), "after");
}

TEST_F(ForkTest, AThreadWithinACallIsLeftAlone) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  server.SetSilent(true);
  absl::Status status = absl::UnknownError("not done");
  std::thread other([&] { status = client->Put("key", std::string(100'000, 'x')).status(); });
  absl::SleepFor(absl::Milliseconds(100));  // by now it waits
  for (int i = 0; i < 20; ++i) {
    InChild([&] {
      const size_t descriptors = Descriptors();
      client.reset();
      EXPECT_LE(Descriptors() + 4, descriptors);
    });
  }
  server.SetSilent(false);
  other.join();
  EXPECT_TRUE(status.ok()) << status;
  ExpectWorks(client.get(), "after");
}

void ExpectCallsAreRefused(Client* client) {
  Value value;
  char buffer[8];
  EXPECT_TRUE(IsRefused(client->Get("key").status()));
  EXPECT_TRUE(IsRefused(client->Get("key", &value)));
  EXPECT_TRUE(IsRefused(client->GetInto("key", buffer).status()));
  EXPECT_TRUE(IsRefused(client->Exists("key").status()));
  EXPECT_TRUE(IsRefused(client->Put("key", "child").status()));
  EXPECT_TRUE(IsRefused(client->Delete("key")));
  EXPECT_TRUE(IsRefused(client->Touch("key", 1000)));
  EXPECT_TRUE(IsRefused(client->Persist("key")));
  EXPECT_TRUE(IsRefused(client->Ttl("key").status()));
  EXPECT_TRUE(IsRefused(client->GetAndTouch("key", 1000).status()));
  EXPECT_TRUE(IsRefused(client->CreateCounter("counter")));
  EXPECT_TRUE(IsRefused(client->FetchAdd("counter", 1).status()));
  EXPECT_TRUE(IsRefused(client->CompareSwap("counter", 0, 1).status()));
  EXPECT_TRUE(IsRefused(client->ReadCounter("counter").status()));
  EXPECT_TRUE(IsRefused(client->DeleteCounter("counter").status()));
  EXPECT_TRUE(IsRefused(client->Ping()));
  EXPECT_TRUE(IsRefused(client->ServerStats().status()));
  EXPECT_TRUE(IsRefused(client->Warm()));
  EXPECT_TRUE(IsRefused(ListClients(client).status()));
  EXPECT_TRUE(IsRefused(KickClient(client, 1)));
  EXPECT_TRUE(IsRefused(RegisterMemory(client, buffer)));
  EXPECT_TRUE(IsRefused(UnregisterMemory(client, buffer)));
}

template <typename T>
void ExpectAllRefused(const absl::Status& status, const std::vector<Result<T>>& results) {
  EXPECT_TRUE(IsRefused(status));
  ASSERT_EQ(results.size(), 2);
  for (const Result<T>& result : results) EXPECT_TRUE(IsRefused(result.status));
}

void ExpectBatchesAreRefused(Client* client) {
  const std::string_view keys[] = {"key", "other"};
  const int64_t numbers[] = {1, 2};
  std::vector<Result<Value>> values(2);
  std::vector<Result<uint64_t>> versions(2);
  std::vector<Result<int64_t>> counters(2);
  ExpectAllRefused(client->MultiGet(keys, &values), values);
  ExpectAllRefused(client->MultiPut(keys, keys, &versions), versions);
  versions.assign(2, {});
  ExpectAllRefused(client->MultiDelete(keys, &versions), versions);
  versions.assign(2, {});
  ExpectAllRefused(client->MultiTouch(keys, 1000, &versions), versions);
  ExpectAllRefused(client->MultiCreateCounter(keys, numbers, &counters), counters);
  counters.assign(2, {});
  ExpectAllRefused(client->MultiFetchAdd(keys, numbers, &counters), counters);
  counters.assign(2, {});
  ExpectAllRefused(client->MultiReadCounter(keys, &counters), counters);
}

void ExpectOperationsAreRefused(Client* client) {
  GetOperation get("key");
  PutOperation put("key", std::string("child")), second("key", std::string("child"));
  AsyncOperation* const both[] = {&put, &second};
  int calls = 0;
  client->Start(&get, [&calls](AsyncOperation* ended) { calls += IsRefused(ended->status()) ? 1 : 0; });
  client->Start(both);
  EXPECT_EQ(client->in_flight(), 3);
  EXPECT_FALSE(client->Arm());
  std::array<AsyncOperation*, 8> done;
  ASSERT_EQ(client->Wait(done), 2);
  EXPECT_EQ(calls, 1);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(done[i], both[i]);
    EXPECT_TRUE(IsRefused(done[i]->status()));
  }
  EXPECT_EQ(client->in_flight(), 0);
  EXPECT_EQ(client->Poll(done), 0);
  EXPECT_EQ(client->fd(), -1);
}

TEST_F(ForkTest, EveryCallOfAChildIsRefusedAndChangesNothing) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "parent").ok());
  InChild([&] {
    ExpectCallsAreRefused(client.get());
    ExpectBatchesAreRefused(client.get());
    ExpectOperationsAreRefused(client.get());
  });
  EXPECT_EQ(client->Get("key")->data, "parent");
  ExpectWorks(client.get(), "after");
}

TEST_F(ForkTest, TheDestructorOfAChildGivesBackDescriptorsAndMemory) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", std::string(100'000, 'x')).ok());
  InChild([&] {
    const size_t descriptors = Descriptors(), mapped = MappedFiles();
    client.reset();
    // A socket, an epoll set, a timer, and an event descriptor, at least.
    EXPECT_LE(Descriptors() + 4, descriptors);
    if (!rdma::TestsUseRdma() && !rdma::TestsUseTcp()) {
      // Table, rings, and the page with the server's life sign.
      EXPECT_LE(MappedFiles() + 3, mapped);
    }
  });
  ExpectWorks(client.get(), "after");
}

TEST_F(ForkTest, AChildConnectsForItself) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  InChild([&] {
    client = Connect();
    ASSERT_NE(client, nullptr);
    ExpectWorks(client.get(), "child");
    InChild([&] {
      EXPECT_TRUE(IsRefused(client->Get("child0").status()));
      client.reset();
    });
    ExpectWorks(client.get(), "again");
    client.reset();
  });
  EXPECT_EQ(client->Get("again19")->data, "again19");
  ExpectWorks(client.get(), "parent");
}

}  // namespace
}  // namespace farlook
