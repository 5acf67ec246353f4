// A cluster of real kv_server processes: its clients find the group of each key, and the failure of one group does not
// affect others.
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farlook/admin.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "farlook/memory.h"
#include "gtest/gtest.h"
#include "tests/cluster/cluster_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

class ClusterTest : public ClusterFixture {
 protected:
  void StartThree() {
    for (int group = 0; group < 3; ++group) Start(group, kSlots[static_cast<size_t>(group)]);
  }

  static constexpr std::array<const char*, 3> kSlots = {"0-1023", "1024-2047,4095", "2048-4094"};
};

TEST_F(ClusterTest, AnyServerLeadsToAllKeys) {
  StartThree();
  const auto writer = ConnectBy(absl::StrCat("farlook://", Seed(*servers_[0]), ",", Seed(*servers_[2]), "/kv"));
  const auto reader = ConnectBy(servers_[1]->address());
  ASSERT_TRUE(writer != nullptr && reader != nullptr);
  const std::vector<std::string> keys = Keys();
  for (const std::string& key : keys) {
    const auto put = writer->Put(key, absl::StrCat(key, "!"));
    ASSERT_TRUE(put.ok()) << put.status();
  }
  for (const std::string& key : keys) {
    const auto got = reader->Get(key);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->data, absl::StrCat(key, "!"));
  }
  EXPECT_TRUE(absl::IsNotFound(reader->Get("absent").status()));
  // A quarter, a quarter and a half of the slots, give and take six deviations.
  const std::array<double, 3> share = {0.25, 0.25, 0.5};
  int64_t sum = 0;
  for (int group = 0; group < 3; ++group) {
    const int64_t its = Stat(reader.get(), absl::StrCat("kv.", group), "keys");
    EXPECT_NEAR(static_cast<double>(its), kKeys * share[static_cast<size_t>(group)], 130);
    sum += its;
  }
  EXPECT_EQ(sum, kKeys);
  EXPECT_EQ(reader->stats().gets, kKeys + 1u);
  EXPECT_EQ(reader->stats().hits, static_cast<uint64_t>(kKeys));
  EXPECT_TRUE(reader->Ping().ok());
  EXPECT_TRUE(reader->Ping({.group = "kv.2"}).ok());
  EXPECT_TRUE(absl::IsNotFound(reader->Ping({.group = "kv.3"})));
}

TEST_F(ClusterTest, BatchesAndWhatDoesNotWaitGoToAllGroups) {
  StartThree();
  const auto client = ConnectBy(absl::StrCat("farlook://", Seed(*servers_[1]), "/kv"));
  ASSERT_TRUE(client != nullptr);
  const std::vector<std::string> keys = Keys();
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<Result<uint64_t>> written;
  ASSERT_TRUE(client->MultiPut(views, views, &written).ok());
  std::vector<Result<Value>> values;
  ASSERT_TRUE(client->MultiGet(views, &values).ok());
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(values[i].status.ok()) << values[i].status;
    EXPECT_EQ(values[i].value.data, keys[i]);
    EXPECT_EQ(values[i].value.version, written[i].value);
  }
  std::vector<Result<uint64_t>> touched;
  ASSERT_TRUE(client->MultiTouch(views, 3'600'000, &touched).ok());
  EXPECT_GT(client->Ttl("key7").value_or(0), 3'000'000);
  ASSERT_TRUE(client->MultiDelete(std::span(views).first(100), &touched).ok());
  EXPECT_TRUE(absl::IsNotFound(client->Get("key99").status()));

  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(absl::StrCat("counter", i));
  const std::vector<std::string_view> counters(names.begin(), names.end());
  const std::vector<int64_t> initials(counters.size(), 5), deltas(counters.size(), 2);
  std::vector<Result<int64_t>> counted;
  ASSERT_TRUE(client->MultiCreateCounter(counters, initials, &counted).ok());
  ASSERT_TRUE(client->MultiFetchAdd(counters, deltas, &counted).ok());
  ASSERT_TRUE(client->MultiReadCounter(counters, &counted).ok());
  for (const Result<int64_t>& result : counted) EXPECT_EQ(result.value, 7);

  // Asynchronous puts: started together, and one by one with a callback.
  std::deque<GetOperation> gets;
  std::vector<AsyncOperation*> started;
  for (int i = 100; i < 300; ++i) {
    gets.emplace_back(keys[i]);
    started.push_back(&gets.back());
  }
  client->Start(started);
  int called = 0;
  std::vector<std::unique_ptr<GetOperation>> owned;
  for (int i = 300; i < 400; ++i) {
    owned.push_back(std::make_unique<GetOperation>(keys[i]));
    client->Start(owned.back().get(), [&, i](AsyncOperation* operation) {
      EXPECT_TRUE(operation->status().ok()) << operation->status();
      EXPECT_EQ(static_cast<GetOperation*>(operation)->value(), keys[i]);
      ++called;
    });
  }
  size_t ended = 0;
  std::array<AsyncOperation*, 7> done;
  while (client->in_flight() > 0) ended += client->Wait(done);
  EXPECT_EQ(ended, gets.size());
  EXPECT_EQ(called, 100);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(gets[i].value(), keys[100 + i]);

  // Memory that values are read into is registered with all groups.
  std::vector<char> memory(1 << 20);
  ASSERT_TRUE(RegisterMemory(client.get(), memory).ok());
  for (int i = 100; i < 110; ++i) EXPECT_EQ(client->GetInto(keys[i], memory).value_or(0), keys[i].size());
  EXPECT_TRUE(UnregisterMemory(client.get(), memory.data()).ok());
  EXPECT_TRUE(absl::IsNotFound(UnregisterMemory(client.get(), memory.data())));
}

TEST_F(ClusterTest, AGroupThatIsGoneIsNamedAndTheOthersGoOn) {
  StartThree();
  const auto client = ConnectBy(servers_[0]->address());
  ASSERT_TRUE(client != nullptr);
  for (const std::string& key : Keys()) ASSERT_TRUE(client->Put(key, key).ok());
  const auto groups = ListGroups(client.get());
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_EQ((*groups)[1].slot_ranges, kSlots[1]);
  EXPECT_EQ((*groups)[2].slots, 2047u);
  EXPECT_EQ((*groups)[2].members, std::vector<std::string>{servers_[2]->address()});
  servers_[2]->Signal(SIGKILL);
  servers_[2]->Wait();
  int found = 0, failed = 0;
  for (int i = 0; i < 60; ++i) {
    const auto got = client->Get(absl::StrCat("key", i), {.timeout_ms = 50});
    if (got.ok()) {
      ++found;
      continue;
    }
    ++failed;
    EXPECT_TRUE(absl::IsDeadlineExceeded(got.status()) || absl::IsUnavailable(got.status())) << got.status();
    EXPECT_TRUE(
        absl::StrContains(got.status().message(), absl::StrCat("group kv.2, last reached at ", servers_[2]->address())))
        << got.status();
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(failed, 10);
  // Expect: a new client is admitted, as the other groups serve.
  ClientOptions hurried;
  hurried.timeout_ms = 2000;
  const auto late = Client::Connect(servers_[1]->address(), hurried);
  ASSERT_TRUE(late.ok()) << late.status();
  found = 0;
  for (int i = 0; i < 60; ++i) found += (*late)->Get(absl::StrCat("key", i), {.timeout_ms = 50}).ok() ? 1 : 0;
  EXPECT_GT(found, 10);
}

TEST_F(ClusterTest, AClusterIsWaitedForUntilEachSlotHasAServer) {
  Start(0, kSlots[0]);
  Start(1, kSlots[1]);
  const std::string address = absl::StrCat("farlook://", Seed(*servers_[0]), "/kv");
  ClientOptions hurried;
  hurried.timeout_ms = 1500;
  const absl::Status status = Client::Connect(address, hurried).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "slots 2048-4094 of the cluster have no group")) << status;
  std::unique_ptr<Client> client;
  std::thread waits([&] { client = ConnectBy(address); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  Start(2, kSlots[2]);
  waits.join();
  ASSERT_TRUE(client != nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(client->Put(absl::StrCat("key", i), "v").ok());
  // Expect: errors for the name of another cluster, and for a server that is in no cluster.
  const absl::Status other =
      Client::Connect(absl::StrCat("farlook://", Seed(*servers_[0]), "/other"), hurried).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_TRUE(absl::StrContains(other.message(), "is of cluster kv, and other is wanted")) << other;
  ServerProcess alone({"--memory=64MiB"});
  const absl::Status none = Client::Connect(absl::StrCat("farlook://", Seed(alone), "/kv"), hurried).status();
  EXPECT_TRUE(absl::StrContains(none.message(), "is of no cluster, and kv is wanted")) << none;
  EXPECT_TRUE(absl::IsFailedPrecondition(ListGroups(MustConnect(alone.address()).get()).status()));
  const absl::Status ungrouped = GroupStatus(MustConnect(alone.address()).get()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(ungrouped)) << ungrouped;
  EXPECT_TRUE(absl::StrContains(ungrouped.message(), "the server is not in a group")) << ungrouped;
}

// Its servers were replaced, one after the other, while the client was away.
TEST_F(ClusterTest, AGroupIsFoundAtServersThatNobodyNamed) {
  StartThree();
  Start(1, "");  // the fourth, a backup
  // Any server will do: a backup says where its primary is.
  const auto client = ConnectBy(servers_[3]->address());
  const auto status_is = [&client](absl::string_view what) {
    return absl::StrContains(GroupStatus(client.get(), {.group = "kv.1"}).value_or(""), what);
  };
  while (!status_is("members 2 of 2")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string key;
  for (int i = 0; i < 100; ++i) {
    key = absl::StrCat("key", i);
    ASSERT_TRUE(client->Put(key, key).ok());
  }
  const auto idle = ConnectBy(servers_[0]->address());
  Start(1, "");  // the fifth, a spare
  for (const size_t ends : {1u, 3u}) {
    servers_[ends]->Signal(SIGKILL);
    servers_[ends]->Wait();
    if (ends == 3) break;
    while (!status_is("members 2 of 2")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int i = 0; i < 100; ++i) {
    key = absl::StrCat("key", i);
    const auto got = idle->Get(key);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->data, key);
  }
}

TEST_F(ClusterTest, AFailoverOfOneGroupLosesNothing) {
  StartThree();
  for (int group = 0; group < 3; ++group) Start(group, "");
  const std::string address = absl::StrCat("farlook://", Seed(*servers_[0]), ",", Seed(*servers_[1]), "/kv");
  {
    const auto client = ConnectBy(address);
    ASSERT_TRUE(client != nullptr);
    for (int group = 0; group < 3; ++group) {
      const auto in_sync = [&] {
        return absl::StrContains(GroupStatus(client.get(), {.group = absl::StrCat("kv.", group)}).value_or(""),
                                 "members 2 of 2");
      };
      while (!in_sync()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  std::vector<std::unique_ptr<Steps>> steps;
  for (int i = 0; i < 6; ++i) steps.push_back(std::make_unique<Steps>(ConnectBy(address), absl::StrCat("chain", i)));
  const auto advance = [&] {
    for (const auto& one : steps) one->Advance(50);
  };
  advance();
  servers_[1]->Signal(SIGKILL);
  servers_[1]->Wait();
  advance();
  const auto operator_client = ConnectBy(address);
  ASSERT_TRUE(operator_client != nullptr) << "the map has the new primary";
  const absl::Status handed_over = HandOver(operator_client.get(), {.group = "kv.0"});
  EXPECT_TRUE(handed_over.ok()) << handed_over;
  advance();
  for (const auto& one : steps) {
    one->Stop();
    EXPECT_FALSE(one->failed());
    EXPECT_GE(one->done(), 150u);
  }
}

}  // namespace
}  // namespace farlook
