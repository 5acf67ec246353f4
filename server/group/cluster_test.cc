// Servers of a cluster in this process, with clients over shm: tests their replies with all parts together.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cluster/cluster_record.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/file_directory.h"
#include "cluster/table_layout.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "server/testing/test_client.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    SetLogLevel(LogLevel::kNone);
    char name[] = "/tmp/farlook-test-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~ClusterTest() override {
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::string Address(absl::string_view name) const { return absl::StrCat("shm://", directory_, "/", name); }
  ServerOptions Options(absl::string_view name, absl::string_view group, absl::string_view slots) const {
    ServerOptions options;
    options.listen = {Address(name)};
    options.memory_bytes = 16 << 20;
    options.huge_pages = rdma::HugePages::kNone;
    options.group = absl::StrCat("file://", directory_, "/", group);
    options.replicas = 1;
    if (slots != "none") {
      options.cluster = "kv";
      options.slots = std::string(slots);
    }
    options.deposed = [] {};
    return options;
  }
  // Starts a server, and waits until it is primary.
  void Start(absl::string_view name, absl::string_view group, absl::string_view slots) {
    auto server = Server::Start(Options(name, group, slots));
    ASSERT_TRUE(server.ok()) << server.status();
    servers_.push_back(*std::move(server));
    servers_.back()->JoinGroup();
    AwaitPrimary(name);
  }
  void AwaitPrimary(absl::string_view name) const {
    absl::Status status;
    for (int i = 0; i < 10'000; ++i) {
      status = TestClient(Address(name)).status();
      if (status.ok()) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    FAIL() << status;
  }
  // Sends a request with the next number of the client's session. Returns an answer without a number if none arrived.
  TestClient::Answer Ask(TestClient* client, RequestType type, absl::string_view key, absl::string_view value = {}) {
    kv::Request request;
    request.type = type;
    request.number = ++numbers_[client->welcome().session];
    request.key = key;
    request.value = value;
    TestClient::Answer answer = client->Ask(request);
    EXPECT_EQ(answer.number, request.number);
    return answer;
  }
  // Returns a server's map, once all `groups` groups in it have begun.
  kv::ClusterMap Map(TestClient* client, size_t groups) {
    kv::ClusterMap map;
    for (int i = 0; i < 10'000; ++i) {
      const TestClient::Answer answer = Ask(client, RequestType::kStat, "map");
      EXPECT_EQ(answer.code, Code::kOk);
      EXPECT_EQ(answer.version, 0u);
      auto decoded = kv::ClusterMap::Decode(answer.payload);
      EXPECT_TRUE(decoded.ok()) << decoded.status();
      if (!decoded.ok()) break;
      map = *std::move(decoded);
      size_t begun = 0;
      for (const kv::ClusterMap::Group& group : map.groups) begun += group.epoch > 0 ? 1 : 0;
      if (begun == groups) return map;
      absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << map.Encode();
    return map;
  }

  std::string directory_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::map<uint64_t, uint64_t> numbers_;  // the last number of each session
};

TEST_F(ClusterTest, EachServerTellsTheMapAndAnswersForItsOwnSlots) {
  Start("a", "g0", "0-1999");
  Start("b", "g1", "2000-4095");
  TestClient a(Address("a")), b(Address("b"));
  ASSERT_TRUE(a.status().ok() && b.status().ok());
  EXPECT_EQ(a.welcome().cluster, "kv");
  EXPECT_EQ(b.welcome().cluster, "kv");
  const kv::ClusterMap map = Map(&a, 2);
  EXPECT_EQ(map.Encode(), Map(&b, 2).Encode());
  EXPECT_EQ(map.name, "kv");
  ASSERT_NE(map.Find("g1"), nullptr);
  EXPECT_EQ(map.Find("g1")->members, std::vector<std::string>{Address("b")});
  EXPECT_EQ(kv::FormatSlots(map.Find("g0")->slots), "0-1999");
  EXPECT_EQ(kv::FormatSlots(map.Find("g1")->slots), "2000-4095");
  // Expect: keys are at the server where the map places them.
  const kv::Hasher hasher(map.hash_seed);
  for (int i = 0; i < 100; ++i) {
    const std::string key = absl::StrCat("key", i);
    const bool in_a = map.Find("g0")->slots[kv::ClusterSlotOf(hasher(key))];
    EXPECT_EQ(Ask(&a, RequestType::kPut, key, "v").code, in_a ? Code::kOk : Code::kMoved) << key;
    EXPECT_EQ(Ask(&b, RequestType::kPut, key, "v").code, in_a ? Code::kMoved : Code::kOk) << key;
  }
  for (int i = 0; i < 10'000 && servers_[0]->Stats("cluster_groups") != "cluster_groups 2\n"; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(servers_[0]->Stats("cluster_"), "cluster_groups 2\ncluster_moves 0\ncluster_slots 2000\n");
}

// This holds also without a cluster: writes continue beside the partition that is copied to a backup.
TEST_F(ClusterTest, AGroupsTableHasSeveralPartitions) {
  ServerOptions options = Options("a", "alone", "none");
  options.workers = 1;
  options.memory_bytes = 32 << 20;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->JoinGroup();
  EXPECT_EQ((*server)->Stats("partitions"), "partitions 16\n");
}

// A version contains its partition, and stays the same when slots move or a member fills another.
TEST_F(ClusterTest, AllTablesHaveThePartitionsOfTheFirst) {
  const auto start = [this](absl::string_view name, absl::string_view group, int workers, uint64_t memory_bytes) {
    ServerOptions options = Options(name, group, group == "g0" ? "0-4095" : "");
    options.workers = workers;
    options.memory_bytes = memory_bytes;
    auto server = Server::Start(options);
    if (!server.ok()) return server.status().ToString();
    servers_.push_back(*std::move(server));
    servers_.back()->JoinGroup();
    return servers_.back()->Stats("partitions");
  };
  EXPECT_EQ(start("a", "g0", 1, 32 << 20), "partitions 16\n");
  EXPECT_EQ(start("b", "g1", 12, 64 << 20), "partitions 16\n");
  EXPECT_EQ(start("c", "g1", 1, 32 << 20), "partitions 16\n") << "another member";
  const std::string refused = start("d", "g2", 1, 16 << 20);
  EXPECT_TRUE(absl::StrContains(refused, "--memory=16MiB")) << refused;
  EXPECT_TRUE(absl::StrContains(refused, "16 partitions")) << refused;
  EXPECT_TRUE(absl::StrContains(refused, "at least 32MiB")) << refused;
  TestClient a(Address("a"));
  EXPECT_EQ(Map(&a, 2).Find("g2"), nullptr) << "who is refused has not entered";
}

// Neither found a record of the group when it made its table, so their hash seeds and partitions differ.
TEST_F(ClusterTest, OfTwoThatBeginAGroupOneBeginsAnewAsTheOtherSays) {
  ServerOptions first = Options("a", "g0", "none"), second = Options("b", "g0", "none");
  first.replicas = second.replicas = 2;
  second.workers = 24;
  first.memory_bytes = second.memory_bytes = 64 << 20;
  std::atomic<bool> begins_anew{false};
  second.deposed = [&] { begins_anew = true; };
  auto a = Server::Start(first), b = Server::Start(second);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << ", " << b.status();
  const std::string partitions = (*a)->Stats("partitions");
  EXPECT_NE((*b)->Stats("partitions"), partitions);
  (*a)->JoinGroup();
  AwaitPrimary("a");
  (*b)->JoinGroup();
  for (int i = 0; i < 10'000 && !begins_anew; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(begins_anew);
  *b = nullptr;  // frees its address
  b = Server::Start(second);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ((*b)->Stats("partitions"), partitions);
  (*b)->JoinGroup();
  std::string members;
  for (int i = 0; i < 10'000 && members != "group_members 2\n"; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
    members = (*a)->Stats("group_members");
  }
  EXPECT_EQ(members, "group_members 2\n");
}

// Neither could follow the other, nor take items from it.
TEST_F(ClusterTest, TablesOfAnotherReleaseAreLeftAlone) {
  const cluster::TableLayout other(cluster::TableLayout::Of(16).word() + (1u << 16));
  const auto directory = cluster::FileDirectory::Open(directory_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto refused = [&](absl::string_view record, const std::string& bytes, const ServerOptions& options) {
    ASSERT_EQ((*directory)->Cas(record, 0, bytes).outcome, cluster::CasOutcome::kDone);
    const absl::Status status = Server::Start(options).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "start it with their release")) << status;
    EXPECT_EQ((*directory)->Get(record, cluster::Freshness::kLatest)->value, bytes);
  };
  cluster::Configuration group;
  group.group = group.epoch = 1;
  group.layout = other;
  group.members.push_back({7, cluster::Replica::Kind::kPrimary, "shm:///nowhere"});
  refused("g0", cluster::EncodeConfiguration(group), Options("a", "g0", "none"));
  refused("kv", cluster::EncodeClusterRecord({.id = 1, .hash_seed = 1, .layout = other}), Options("b", "g1", "0-4095"));
}

// The move makes no progress, as the giver is gone. A client that loses its connection before the answer repeats the
// request. This happens: the group enters another epoch with each move that begins or ends.
TEST_F(ClusterTest, AMoveThatIsCancelledMayBeCancelledAgain) {
  Start("a", "g0", "0-2047");
  Start("b", "g1", "2048-4095");
  servers_.erase(servers_.begin());
  TestClient b(Address("b"));
  const auto ask = [&](absl::string_view what) {
    return std::string(Ask(&b, RequestType::kAdmin, absl::StrCat("cluster ", what)).payload);
  };
  const auto await = [&](absl::string_view what) {
    std::string status;
    for (int i = 0; i < 10'000; ++i) {
      status = ask("status");
      if (absl::StrContains(status, what)) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    FAIL() << status;
  };
  const std::string refused = "refused: the group takes no slots at present\n";
  EXPECT_EQ(ask("cancel"), refused);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ask("take g0 0-99"), "begun\n");
    await("taking g0 0-99");
    EXPECT_EQ(ask("cancel"), "begun\n");
    await("failed cancelled by an operator");
    EXPECT_EQ(ask("cancel"), "begun\n");
  }
  // Expect: a repeated cancel does not affect the next move.
  ASSERT_EQ(ask("take no-group 0-99"), "begun\n");
  await("failed there is no group no-group");
  EXPECT_EQ(ask("cancel"), refused);
}

TEST_F(ClusterTest, AMapIsThereBeforeOthersHaveBegun) {
  Start("a", "g0", "0-1999");
  TestClient a(Address("a"));
  const kv::ClusterMap map = Map(&a, 1);
  ASSERT_EQ(map.groups.size(), 1u);
  EXPECT_EQ(map.groups[0].slots.count(), 2000u);
}

TEST_F(ClusterTest, AGroupOutsideOfAClusterHasNoMapAndAllKeys) {
  Start("a", "alone", "none");
  kv::Hello hello;
  hello.flags = kv::Hello::kReadOnly;
  TestClient reader(Address("a"), hello);
  EXPECT_EQ(reader.welcome().cluster, "");
  EXPECT_EQ(Ask(&reader, RequestType::kStat, "map").code, Code::kUnsupported);
  TestClient writer(Address("a"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask(&writer, RequestType::kPut, absl::StrCat(i), "v").code, Code::kOk);
}

// A read-only client asks, and so does a primary that joins an existing group.
TEST_F(ClusterTest, WhoOnlyReadsMayAskForTheMap) {
  Start("a", "g0", "0-4095");
  kv::Hello hello;
  hello.flags = kv::Hello::kReadOnly;
  TestClient reader(Address("a"), hello);
  EXPECT_EQ(Map(&reader, 1).Find("g0")->slots.count(), kv::kClusterSlots);
}

TEST_F(ClusterTest, AGroupThatIsBegunAnewKeepsItsClusterAndSlots) {
  Start("a", "g0", "0-1999");
  uint64_t seed;
  {
    TestClient a(Address("a"));
    seed = Map(&a, 1).hash_seed;
  }
  servers_.clear();
  ServerOptions options = Options("a", "g0", "none");
  options.begin_group_anew.epoch = 1;
  auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  servers_.push_back(*std::move(server));
  servers_.back()->JoinGroup();
  for (int i = 0; i < 10'000 && !TestClient(Address("a")).status().ok(); ++i) absl::SleepFor(absl::Milliseconds(1));
  TestClient a(Address("a"));
  ASSERT_TRUE(a.status().ok()) << a.status();
  EXPECT_EQ(a.welcome().cluster, "kv");
  const kv::ClusterMap map = Map(&a, 1);
  EXPECT_EQ(map.hash_seed, seed);
  EXPECT_GT(map.groups[0].epoch, 1u);
  EXPECT_EQ(kv::FormatSlots(map.groups[0].slots), "0-1999");
}

}  // namespace
}  // namespace farlook::server
