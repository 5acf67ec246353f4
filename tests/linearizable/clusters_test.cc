// Processes use a cluster of two groups of three real kv_servers each, on shared memory. Its directory is etcd of three
// members, and each server has a separate link to each of them. Servers are killed, stopped and continued, their links
// to etcd are cut, members of etcd are killed and stopped, and so are the processes. All answers must be linearizable,
// as long as one member in sync of each group is left.
//
//     bazel test --config=opt //tests/linearizable:clusters_test
//     ... --test_env=FARLOOK_FULL_LENGTH=1 --test_timeout=14400      until 10,000 were killed or stopped
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/etcd_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/relay.h"
#include "tests/linearizable/user.h"
#include "tests/linearizable/users.h"
#include "tests/linearizable/verdict.h"

namespace farlook {
namespace {

constexpr int kGroups = 2, kReplicas = 3, kServers = kGroups * kReplicas;
constexpr size_t kEtcds = 3;
constexpr int kEventsOfARound = 24;

// The events of all rounds.
struct Events {
  int kills = 0, stops = 0, cuts = 0, etcd_kills = 0, etcd_stops = 0, users = 0;
  int killed_or_stopped() const { return kills + stops; }
};

// A cluster with a name that was not used before.
class ChaosCluster {
 public:
  ChaosCluster(cluster::EtcdProcesses* etcd, const std::string& name, uint32_t seed)
      : etcd_(*etcd), name_(name), random_(seed) {
    for (int i = 0; i < kServers; ++i) {
      std::vector<std::string> directories;
      for (const std::string& endpoint : etcd_.endpoints()) {
        links_[i].push_back(std::make_unique<Relay>(endpoint));
        directories.push_back(links_[i].back()->address());
      }
      const int group = i % kGroups;
      const std::string half = group == 0 ? "0-2047" : "2048-4095";
      servers_.push_back(std::make_unique<ServerProcess>(std::vector<std::string>{
          "--memory=32MiB", "--log_level=none", "--suspicion=200ms", "--lease=50ms", "--replicas=3",
          absl::StrCat("--group=etcd://", absl::StrJoin(directories, ","), "/", name_, ".", group),
          absl::StrCat("--cluster=", name_), absl::StrCat("--slots=", i < kGroups ? half : "")}));
    }
    std::vector<std::string> seeds;
    for (const auto& server : servers_) seeds.push_back(server->address().substr(server->address().find("://") + 3));
    address_ = absl::StrCat("farlook://", absl::StrJoin(seeds, ","), "/", name_);
    operator_ = MustConnect(address_);
    for (int group = 0; group < kGroups; ++group) AwaitWhole(group);
  }

  const std::string& address() const { return address_; }

  // Disturbs a server, its links, or etcd; and ends the previous disturbance.
  void Disturb(Events* events) {
    const int i = static_cast<int>(random_() % kServers);
    switch (random_() % 8) {
      case 0:
      case 1:
        if (!Kill(i)) break;
        ++events->kills;
        return;
      case 2:
      case 3:
        StopForAWhile(i);
        ++events->stops;
        return;
      case 4:
      case 5:
        for (const auto& link : links_[i]) link->Cut(random_() % 4 != 0);
        Nap(600);
        for (const auto& link : links_[i]) link->Cut(false);
        ++events->cuts;
        return;
      case 6: {
        const size_t member = random_() % kEtcds;
        etcd_.Kill(member);
        Nap(300);
        etcd_.Start(member);
        etcd_.AwaitHealthy();
        ++events->etcd_kills;
        return;
      }
      default: {
        const size_t member = random_() % kEtcds;
        etcd_.Signal(member, SIGSTOP);
        Nap(400);
        etcd_.Signal(member, SIGCONT);
        ++events->etcd_stops;
        return;
      }
    }
    StopForAWhile(i);
    ++events->stops;
  }

 private:
  void Nap(uint32_t most_ms) { usleep(static_cast<useconds_t>(random_() % (most_ms * 1000))); }

  void StopForAWhile(int i) {
    servers_[static_cast<size_t>(i)]->Signal(SIGSTOP);
    Nap(random_() % 3 == 0 ? 1'500 : 300);
    servers_[static_cast<size_t>(i)]->Signal(SIGCONT);
  }

  // False: not all others of its group are in sync.
  bool Kill(int i) {
    if (!IsWhole(i % kGroups)) return false;
    ServerProcess& server = *servers_[static_cast<size_t>(i)];
    server.Signal(SIGKILL);
    server.Wait();
    Nap(400);
    server.Restart();
    return true;
  }

  bool IsWhole(int group) {
    const auto text = GroupStatus(operator_.get(), {.timeout_ms = 1'000, .group = absl::StrCat(name_, ".", group)});
    return text.ok() && absl::StrContains(*text, "members 3 of 3") && !absl::StrContains(*text, "disconnected");
  }
  void AwaitWhole(int group) {
    while (!IsWhole(group)) usleep(10'000);
  }

  cluster::EtcdProcesses& etcd_;
  const std::string name_;
  std::minstd_rand random_;
  std::array<std::vector<std::unique_ptr<Relay>>, kServers> links_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::string address_;
  std::unique_ptr<Client> operator_;
};

TEST(ClustersTest, WhatWasAcknowledgedIsThereWhateverEnds) {
  const int wanted = std::getenv("FARLOOK_FULL_LENGTH") != nullptr ? 10'000 : 1;
  cluster::EtcdProcesses etcd(kEtcds);
  std::random_device device;
  Events events;
  for (int round = 0; events.killed_or_stopped() < wanted && !testing::Test::HasFailure(); ++round) {
    const uint32_t seed = device();
    ChaosCluster cluster(&etcd, absl::StrCat("chaos", round), seed);
    Board board;
    Users users(&board, cluster.address(), seed, RunUser);
    users.Start(4);
    for (int i = 0; i < kEventsOfARound; ++i) {
      usleep(50'000);
      cluster.Disturb(&events);
      if (i % 3 != 0) continue;
      users.Disturb();
      ++events.users;
    }
    users.Join();
    ExpectLinearizable(board);
    std::printf(
        "after %d rounds: %d servers killed, %d stopped, %d cut off from etcd, members of etcd %d killed, %d "
        "stopped, %d processes killed or stopped\n",
        round + 1, events.kills, events.stops, events.cuts, events.etcd_kills, events.etcd_stops, events.users);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace farlook
