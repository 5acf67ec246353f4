// bench/compare between two hosts: servers on one, clients on the other.
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace farlook {
namespace {

TEST(CompareBetweenHostsTest, ClientsAreOnTheOtherHostAndTheServersCpuIsTold) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/compare");
  const std::string command = absl::StrCat(
      "python3 bench/comparison/main.py --kv_server server/daemon/kv_server --ycsb bench/ycsb/ycsb --kv_cli "
      "client/cli/kv_cli "
      "--clients-on 'peer run' --cases C:64:1:single:zipfian --cases A:64:1:inflight16:zipfian --operations 200 "
      "--stores farlook-rdma,farlook-rdma-msg,farlook-tcp,redis-tcp,floor,perftest --records 200 --memory-mib 4 "
      "--repeats 1 "
      "--output ",
      directory);
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(absl::StrCat(directory, "/compare.json"));
  const nlohmann::json report = nlohmann::json::parse(file);
  EXPECT_EQ(report["failures"].size(), 0u) << report["failures"];
  EXPECT_EQ(report["run"]["clients_on"], "peer run");
  ASSERT_EQ(report["results"].size(), 2u);
  for (const nlohmann::json& result : report["results"]) {
    SCOPED_TRACE(result["case"].dump());
    std::map<std::string, nlohmann::json> rows;
    for (const nlohmann::json& row : result["rows"]) rows[row["store"]] = row;
    EXPECT_EQ(rows.size(), 6u);
    for (const char* store : {"farlook-rdma", "farlook-rdma-msg", "farlook-tcp", "redis-tcp", "floor", "perftest"}) {
      ASSERT_TRUE(rows.count(store)) << store;
      EXPECT_GT(rows[store]["ops_per_s"]["median"].get<double>(), 0) << store;
    }
    const auto server_ns = [&rows](const char* store) { return rows[store]["server_cpu_ns"]["median"].get<double>(); };
    for (const char* store : {"farlook-rdma-msg", "farlook-tcp", "redis-tcp"}) EXPECT_GT(server_ns(store), 0) << store;
    // READs leave the other host's server asleep. It may only use time for its timer, which checks for clients that are
    // silently gone: 5 ms here in a run of two seconds, where lookups by message take 800.
    if (result["case"]["workload"] == "C") {
      EXPECT_LT(server_ns("farlook-rdma"), server_ns("farlook-rdma-msg") / 20);
    }
  }
}

}  // namespace
}  // namespace farlook
