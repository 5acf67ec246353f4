#include "server/daemon/stat_text.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/table/table.h"
#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "server/base/worker_stats.h"

namespace farlook::server {
namespace {

class StatTextTest : public ::testing::Test {
 protected:
  std::string Text(absl::string_view prefix = {}) {
    return StatText(facts_, moment_, table_, {&workers_[0], &workers_[1]}, prefix, &order_);
  }

  ServerFacts facts_;
  ServerMoment moment_;
  kv::TableStats table_;
  WorkerStats workers_[2];
  StatOrder order_;
};

TEST_F(StatTextTest, EveryLineIsANameOfItsOwnAndAValue) {
  facts_.version = "1.2";
  facts_.huge_pages = "none";
  facts_.addresses = {"shm:///a", "shm:///b"};
  std::set<std::string> names;
  for (absl::string_view line : absl::StrSplit(Text(), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    ASSERT_EQ(words.size(), 2u) << line;
    EXPECT_NE(words[1], "") << line;
    EXPECT_TRUE(names.insert(words[0]).second) << line;
  }
  EXPECT_GT(names.size(), 50u);
}

TEST_F(StatTextTest, TellsHowTheTableBegan) {
  EXPECT_EQ(Text("restart"), "restart_kind cold\nrestart_ms 0\nrestarted_keys 0\n");
  facts_.restart = {"warm", 12, 34};
  EXPECT_EQ(Text("restart"), "restart_kind warm\nrestart_ms 12\nrestarted_keys 34\n");
}

TEST_F(StatTextTest, FiguresOfWorkersAreSums) {
  workers_[0].pulls.Add(3);
  workers_[1].pulls.Add(4);
  workers_[1].replies[static_cast<size_t>(kv::Code::kNotFound)].Add();
  workers_[0].requests[static_cast<size_t>(kv::RequestType::kPutPulled)].Add(2);
  workers_[0].rejected.Add(1);
  moment_.rejected = 10;
  EXPECT_EQ(Text("pulls"), "pulls 7\n");
  EXPECT_EQ(Text("replies_not_found"), "replies_not_found 1\n");
  EXPECT_EQ(Text("requests_put_pulled"), "requests_put_pulled 2\n");
  EXPECT_EQ(Text("rejected"), "rejected 11\n");
  EXPECT_EQ(Text("workers"), "workers 2\n");
}

TEST_F(StatTextTest, TheIndexTellsHowItShrinks) {
  table_.merges = 5;
  table_.segment_moves = 6;
  EXPECT_EQ(Text("merges"), "merges 5\n");
  EXPECT_EQ(Text("segment_moves"), "segment_moves 6\n");
}

TEST_F(StatTextTest, TimesUnderLocksAreOfAllWorkers) {
  workers_[0].lock_times.Add(0, 0);
  workers_[1].lock_times.Add(0, 0);
  workers_[1].lock_times.Add(0, (uint64_t{50'000} << 32) / TickScale());  // 50 us
  EXPECT_EQ(Text("lock_holds_below_65"), "lock_holds_below_65536_ns 3\n");
  EXPECT_EQ(Text("lock_holds_below_8"), "lock_holds_below_8192_ns 2\n");
  EXPECT_EQ(Text("lock_p50"), "lock_p50_ns 64\n");
  EXPECT_EQ(Text("lock_p999"), "lock_p999_ns 57344\n");
}

TEST_F(StatTextTest, GetsOfClientsAreThereWhereTheyAreAsked) {
  workers_[0].client_gets.Add(3);
  workers_[1].client_gets.Add(4);
  workers_[0].get_times[0].Add(98);
  workers_[1].get_times[1].Add(2);
  EXPECT_EQ(Text("client_"), "client_figures 0\n");
  facts_.client_figures = true;
  EXPECT_EQ(Text("client_gets"), "client_gets 7\nclient_gets_per_s 0\n");
  EXPECT_EQ(Text("get_p"), "get_p50_ns 64\nget_p99_ns 80\nget_p999_ns 80\n");
}

TEST_F(StatTextTest, TimesOfRequestsAreThereOfTypesThatCame) {
  EXPECT_EQ(Text("handling_"), "");
  auto& times = workers_[0].request_times[static_cast<size_t>(kv::RequestType::kPutPulled)];
  times[kv::DurationBuckets::BucketOf(2000)].Add(3);
  workers_[1].slow_requests.Add(2);
  EXPECT_EQ(Text("handling_put_pulled_timed"), "handling_put_pulled_timed 3\n");
  EXPECT_EQ(Text("handling_put_pulled_p"),
            "handling_put_pulled_p50_ns 2048\nhandling_put_pulled_p99_ns 2048\nhandling_put_pulled_p999_ns 2048\n");
  EXPECT_EQ(Text("handling_put_pulled_below_1"),
            "handling_put_pulled_below_1024_ns 0\nhandling_put_pulled_below_16384_ns 3\n"
            "handling_put_pulled_below_1048576_ns 3\nhandling_put_pulled_below_16777216_ns 3\n");
  EXPECT_EQ(Text("slow_"), "slow_requests 2\n");
}

// A client that reads page after page counts lines: new lines between two pages must follow all earlier ones.
TEST_F(StatTextTest, WhatComesBetweenTwoPagesShiftsNothing) {
  facts_.evict = true;
  const auto names = [this] {
    std::vector<std::string> all;
    for (const absl::string_view line : absl::StrSplit(Text(), '\n', absl::SkipEmpty())) {
      all.emplace_back(line.substr(0, line.find(' ')));
    }
    return all;
  };
  const auto came = {kv::RequestType::kStat, kv::RequestType::kPut, kv::RequestType::kAdmin, kv::RequestType::kGet};
  std::vector<std::string> before = names();
  for (const kv::RequestType type : came) {
    workers_[1].request_times[static_cast<size_t>(type)][0].Add();
    if (type == kv::RequestType::kPut) table_.evictions[1].evictions = 1;
    if (type == kv::RequestType::kGet) table_.evictions[0].evictions = 1;
    const std::vector<std::string> after = names();
    ASSERT_GT(after.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << static_cast<int>(type);
    before = after;
  }
  // Expect: no group's lines are missing.
  EXPECT_NE(Text("handling_put_timed"), "");
  EXPECT_EQ(Text("medium_evictions"), "medium_evictions 1\n");
}

TEST_F(StatTextTest, OfAGroupAndItsClusterWhereThereAreSuch) {
  EXPECT_EQ(Text("group_") + Text("cluster_"), "");
  moment_.group.replicas = 2;
  moment_.group.members = 1;
  EXPECT_EQ(Text("group_members") + Text("cluster_"), "group_members 1\n");
  moment_.group.lag_records = 7;
  moment_.group.lag_ms = 1200;
  EXPECT_EQ(Text("group_lag"), "group_lag_records 7\ngroup_lag_ms 1200\n");
  moment_.group.is_in_cluster = true;
  moment_.group.cluster_groups = 3;
  moment_.group.cluster_moves = 1;
  moment_.group.cluster_slots = 2048;
  EXPECT_EQ(Text("cluster_"), "cluster_groups 3\ncluster_moves 1\ncluster_slots 2048\n");
}

TEST_F(StatTextTest, APrefixSelects) {
  moment_.cpu_user_s = 1.5;
  EXPECT_EQ(Text("cpu_"), "cpu_user_s 1.500\ncpu_system_s 0.000\n");
  moment_.draining = true;
  EXPECT_EQ(Text("draining"), "draining 1\n");
  EXPECT_EQ(Text("nothing like it"), "");
  facts_.incarnation = 0xabc;
  EXPECT_EQ(Text("incarnation"), "incarnation 0000000000000abc\n");
  facts_.numa_node = 0;
  EXPECT_EQ(Text("numa_node"), "numa_node 0\n");
}

}  // namespace
}  // namespace farlook::server
