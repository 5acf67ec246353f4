// A group of three real kv_servers and its etcd on three hosts, which are network namespaces of this machine
// (host_network.h), and clients on a fourth one. A fault a second: hosts are cut off, from all others or from one, in
// both directions or in one; links lose and delay packets; servers and members of etcd are killed and stopped; the
// primary hands over; processes of clients are killed and stopped. All answers must be linearizable, and each item that
// was put before the faults must be there. The run prints for what share of the time reads and writes went on.
//
//     bazel test --config=opt --test_output=streamed //tests/linearizable:namespaces_test
//     ... --test_env=FARLOOK_ROUNDS=200 --test_timeout=36000      for hours; 60 faults a round
//     ... --test_env=FARLOOK_SEED=N                               the faults of that seed, which a run prints
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cluster/etcd_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/host_network.h"
#include "tests/linearizable/user.h"
#include "tests/linearizable/users.h"
#include "tests/linearizable/verdict.h"

namespace farlook {
namespace {

constexpr size_t kServers = 3, kClients = 3, kHosts = 4;  // kClients: the host of all clients
constexpr int kItems = 2'000;
constexpr int64_t kNsInMs = 1'000'000;

int RunOnHost(Board* board, int lane, const std::string& address, uint32_t seed) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  // The log of a process has room for two minutes at this pace.
  return RunUserUntilAllIsRead(board, lane, address, seed, options, /*most_rest_us=*/40'000);
}

// Calls without end, and the time in which none succeeded.
class Prober {
 public:
  // A longer time between two successes is a pause.
  static constexpr int64_t kPauseNs = 100 * kNsInMs;

  Prober(const std::string& address, std::function<bool(Client*)> call)
      : client_(MustConnect(address)), call_(std::move(call)), thread_([this] { Run(); }) {}
  ~Prober() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // REQUIRES Stop() was called.
  int64_t ns() const { return last_ns_ - began_ns_; }
  int64_t paused_ns() const { return paused_ns_; }
  int64_t longest_ns() const { return longest_ns_; }

 private:
  void Run() {
    while (!over_) {
      const bool succeeded = call_(client_.get());
      const int64_t now_ns = HostNowNs();
      if (!succeeded && !over_) continue;
      longest_ns_ = std::max(longest_ns_, now_ns - last_ns_);
      if (now_ns - last_ns_ > kPauseNs) paused_ns_ += now_ns - last_ns_;
      last_ns_ = now_ns;
      usleep(1'000);
    }
  }

  const std::unique_ptr<Client> client_;
  const std::function<bool(Client*)> call_;
  const int64_t began_ns_ = HostNowNs();
  int64_t last_ns_ = began_ns_, paused_ns_ = 0, longest_ns_ = 0;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// The sums of all rounds.
struct Sums {
  int faults = 0, kills = 0, stops = 0, cuts = 0, bad_links = 0, etcd = 0, handovers = 0, users = 0;
  int64_t ns = 0, reads_paused_ns = 0, writes_paused_ns = 0, longest_read_ns = 0, longest_write_ns = 0;
};

double ShareOfTime(int64_t paused_ns, int64_t ns) {
  return 100.0 * static_cast<double>(ns - paused_ns) / static_cast<double>(std::max<int64_t>(ns, 1));
}

// The machine's network and etcd, which all rounds use. Its thread is on the host of the clients.
class Hosts {
 public:
  Hosts()
      : network_(kHosts),
        here_(&network_, kClients),
        etcd_({HostNetwork::address(0), HostNetwork::address(1), HostNetwork::address(2)},
              [this](size_t member, const std::function<void()>& run) {
                const HostNetwork::Inside inside(&network_, member);
                run();
              }) {}

  HostNetwork* network() { return &network_; }
  cluster::EtcdProcesses* etcd() { return &etcd_; }

 private:
  HostNetwork network_;
  const HostNetwork::Inside here_;
  cluster::EtcdProcesses etcd_;
};

// One group, which begins empty.
class GroupOfHosts {
 public:
  GroupOfHosts(Hosts* hosts, const std::string& name, uint32_t seed)
      : network_(*hosts->network()), etcd_(*hosts->etcd()), random_(seed) {
    std::vector<std::string> directories;
    for (const std::string& endpoint : etcd_.endpoints()) directories.push_back(endpoint.substr(7));
    std::vector<std::string> addresses;
    for (size_t i = 0; i < kServers; ++i) {
      const HostNetwork::Inside inside(&network_, i);
      setenv("FARLOOK_TCP_ADDRESS", HostNetwork::address(i).c_str(), 1);
      servers_.push_back(std::make_unique<ServerProcess>(std::vector<std::string>{
          "--memory=32MiB", "--workers=1", "--log_level=none", "--replicas=3", "--min_insync=2",
          absl::StrCat("--group=etcd://", absl::StrJoin(directories, ","), "/", name)}));
      addresses.push_back(servers_.back()->address());
    }
    address_ = absl::StrJoin(addresses, ",");
    operator_ = MustConnect(address_);
    AwaitWhole();
    for (int i = 0; i < kItems; ++i) {
      EXPECT_TRUE(operator_->Put(absl::StrCat("item", i), absl::StrCat("value", i)).ok());
    }
  }
  ~GroupOfHosts() { network_.Heal(); }

  const std::string& address() const { return address_; }

  // One fault, which lasts up to a second, and its end.
  void Disturb(Sums* sums) {
    const int64_t until_ns = HostNowNs() + 1'000 * kNsInMs;
    const size_t host = random_() % kServers, other = (host + 1 + random_() % (kHosts - 1)) % kHosts;
    ++sums->faults;
    switch (random_() % 11) {
      case 0:
        ++sums->cuts;
        ForAllOf(host, [&](size_t to) { network_.SetBothWays(host, to, {.cut = true}); });
        break;
      case 1:
      case 2:
        ++sums->cuts;
        network_.SetBothWays(host, other, {.cut = true});
        break;
      case 3:
        ++sums->cuts;
        network_.Set(host, other, {.cut = true});
        break;
      case 4: {
        ++sums->cuts;
        const bool is_deaf = random_() % 2 == 0;
        ForAllOf(host, [&](size_t to) { network_.Set(is_deaf ? to : host, is_deaf ? host : to, {.cut = true}); });
        break;
      }
      case 5: {
        ++sums->bad_links;
        const int lost = 20 + static_cast<int>(random_() % 300);
        ForAllOf(host, [&](size_t to) { network_.SetBothWays(host, to, {.lost_per_mille = lost}); });
        break;
      }
      case 6: {
        ++sums->bad_links;
        const HostNetwork::Link slow = {.delay_us = static_cast<int>(random_() % 30'000),
                                        .jitter_us = static_cast<int>(random_() % 20'000)};
        ForAllOf(host, [&](size_t to) { network_.SetBothWays(host, to, slow); });
        break;
      }
      case 7:
        ++sums->stops;
        servers_[host]->Signal(SIGSTOP);
        Nap(900);
        servers_[host]->Signal(SIGCONT);
        break;
      case 8:
        if (!IsWhole()) break;  // the last copy is not killed
        ++sums->kills;
        servers_[host]->Signal(SIGKILL);
        servers_[host]->Wait();
        Nap(500);
        Restart(host);
        break;
      case 9:
        ++sums->etcd;
        DisturbEtcd(host);
        break;
      default:
        if (HandOver(operator_.get(), {.timeout_ms = 1'000}).ok()) ++sums->handovers;
    }
    Nap(static_cast<uint32_t>(std::max<int64_t>(1, (until_ns - HostNowNs()) / kNsInMs)));
    network_.Heal();
    while (HostNowNs() < until_ns) usleep(1'000);
  }

  void AwaitWhole() {
    const int64_t end_ns = HostNowNs() + 60'000 * kNsInMs;
    while (!IsWhole() && HostNowNs() < end_ns) usleep(10'000);
    EXPECT_LT(HostNowNs(), end_ns) << "the group does not become whole";
  }

  void ExpectAllItems() {
    for (int i = 0; i < kItems && !testing::Test::HasFailure(); ++i) {
      const auto value = operator_->Get(absl::StrCat("item", i));
      EXPECT_TRUE(value.ok() && value->data == absl::StrCat("value", i)) << i << ": " << value.status();
    }
  }

 private:
  void Nap(uint32_t most_ms) { usleep(static_cast<useconds_t>(random_() % (most_ms * 1'000))); }

  static void ForAllOf(size_t host, const std::function<void(size_t)>& set) {
    for (size_t to = 0; to < kHosts; ++to) {
      if (to != host) set(to);
    }
  }

  void Restart(size_t host) {
    const HostNetwork::Inside inside(&network_, host);
    servers_[host]->Restart();
  }

  void DisturbEtcd(size_t member) {
    if (random_() % 2 == 0) {
      etcd_.Signal(member, SIGSTOP);
      Nap(900);
      etcd_.Signal(member, SIGCONT);
    } else {
      etcd_.Kill(member);
      Nap(500);
      etcd_.Start(member);
    }
  }

  bool IsWhole() {
    const auto text = GroupStatus(operator_.get(), {.timeout_ms = 1'000});
    return text.ok() && absl::StrContains(*text, "members 3 of 3") && !absl::StrContains(*text, "disconnected");
  }

  HostNetwork& network_;
  cluster::EtcdProcesses& etcd_;
  std::minstd_rand random_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::string address_;
  std::unique_ptr<Client> operator_;
};

void RunRound(Hosts* hosts, int round, int faults, uint32_t seed, Sums* sums) {
  GroupOfHosts group(hosts, absl::StrCat("round", round), seed);
  Board board;
  Users users(&board, group.address(), seed, RunOnHost);
  users.Start(4);
  Prober reader(group.address(), [](Client* client) { return client->Get("item0").ok(); });
  Prober writer(group.address(), [](Client* client) { return client->Put("probe", "value").ok(); });
  for (int i = 0; i < faults; ++i) {
    group.Disturb(sums);
    if (i % 4 != 0) continue;
    users.Disturb();
    ++sums->users;
  }
  reader.Stop();
  writer.Stop();
  sums->ns += reader.ns();
  sums->reads_paused_ns += reader.paused_ns();
  sums->writes_paused_ns += writer.paused_ns();
  sums->longest_read_ns = std::max(sums->longest_read_ns, reader.longest_ns());
  sums->longest_write_ns = std::max(sums->longest_write_ns, writer.longest_ns());
  group.AwaitWhole();
  users.Join();
  group.ExpectAllItems();
  ExpectLinearizable(board);
}

TEST(NamespacesTest, WhatWasAcknowledgedIsThereWhateverTheNetworkDoes) {
  const char *rounds_given = std::getenv("FARLOOK_ROUNDS"), *seed_given = std::getenv("FARLOOK_SEED");
  const int rounds = rounds_given == nullptr ? 1 : std::atoi(rounds_given);
  std::random_device device;
  Hosts hosts;
  Sums sums;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const uint32_t seed =
        seed_given == nullptr ? device() : static_cast<uint32_t>(std::strtoul(seed_given, nullptr, 10));
    RunRound(&hosts, round, rounds_given == nullptr ? 20 : 60, seed, &sums);
    std::printf(
        "after %d rounds: %d faults (%d cuts, %d bad links, %d servers killed, %d stopped, %d handovers, %d members of "
        "etcd killed or stopped), %d processes killed or stopped; reads %.1f %% of the time, longest pause %.1f s; "
        "writes %.1f %%, longest pause %.1f s\n",
        round + 1, sums.faults, sums.cuts, sums.bad_links, sums.kills, sums.stops, sums.handovers, sums.etcd,
        sums.users, ShareOfTime(sums.reads_paused_ns, sums.ns), static_cast<double>(sums.longest_read_ns) / 1e9,
        ShareOfTime(sums.writes_paused_ns, sums.ns), static_cast<double>(sums.longest_write_ns) / 1e9);
    std::fflush(stdout);
  }
  EXPECT_GT(hosts.network()->passed(), 10'000u);
  EXPECT_GT(hosts.network()->lost(), 0u);
}

}  // namespace
}  // namespace farlook
