// The state that the parties of one simulated run share: time, network, faults, histories, and the first violation.
#ifndef FARLOOK_TESTS_SIM_WORLD_H_
#define FARLOOK_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "cluster/simulated_directory.h"
#include "rdma/sim/network.h"
#include "rdma/sim/random.h"
#include "rdma/sim/scheduler.h"
#include "tests/history/history.h"
#include "tests/sim/ends.h"
#include "tests/sim/plan.h"

namespace farlook::sim {

struct World {
  explicit World(const Plan& p)
      : plan(p), scheduler(rdma::sim::Mix(p.seed) + 2), network(&scheduler, p.network), random(p.seed * 2 + 1) {}

  int64_t now_ns() const { return scheduler.now_ns(); }
  bool has(Fault fault) const { return !healed && plan.has(fault); }
  // Returns whether the fault is on and strikes now, and notes that it did.
  bool Strikes(Fault fault) {
    if (has(fault)) occurred |= BitOf(fault);
    return has(fault);
  }
  // The history of a key of a server.
  history::KeyHistory& HistoryOf(int server, int key) {
    return histories[static_cast<size_t>(server * plan.keys + key)];
  }
  std::vector<Lease>& LeasesOf(int server, int key) { return leases[static_cast<size_t>(server * plan.keys + key)]; }
  // Which keys name values and counters, in a run that has counters: there are few counters, so that they are busy.
  static constexpr int kCounterKeys = 12;
  bool NamesValues(int key) const { return !NamesCounters(key) || key % 4 == 3; }
  bool NamesCounters(int key) const { return plan.counters && key < kCounterKeys && key % 4 >= 2; }
  // Names of groups of replicas, and of their cluster, where there are several.
  static constexpr char kCluster[] = "kv";
  static std::string GroupName(int group) { return "g" + std::to_string(group); }
  int GroupOf(int server) const { return server / plan.replicas; }
  cluster::SimulatedDirectory::Fault DrawDirectoryFault() {
    using DirectoryFault = cluster::SimulatedDirectory::Fault;
    if (healed || opening || !random.PerMillion(plan.directory_faults)) return DirectoryFault::kNone;
    constexpr DirectoryFault kEach[] = {DirectoryFault::kRequestLost, DirectoryFault::kReplyLost,
                                        DirectoryFault::kLate};
    const DirectoryFault fault = kEach[random.Below(3)];
    if (fault != DirectoryFault::kLate) return fault;
    scheduler.After(random.Between(100'000, random.OneIn(2) ? 10'000'000 : 1'000'000'000), [this] {
      if (records.delayed() > 0) records.Execute(random.Below(records.delayed()));
    });
    return fault;
  }
  // Keeps the first.
  void Violate(std::string why) {
    if (violation.empty()) violation = std::move(why);
  }
  void Note(std::string what) {
    if (noting) notes.emplace_back(now_ns(), std::move(what));
  }

  const Plan plan;
  rdma::sim::Scheduler scheduler;
  rdma::sim::Network network;
  rdma::sim::Random random;           // of the parties; the network has the scheduler's
  cluster::SimulatedRecords records;  // of groups
  std::set<uint64_t> moves;           // of slots, that came to an end: their ids
  std::set<uint64_t> served;          // incarnations that were primaries and served
  // Returns whether that server may die, so that one is left that has all acknowledged writes; empty: any may.
  std::function<bool(int server)> may_die;
  std::vector<std::string> keys;
  std::vector<history::KeyHistory> histories;
  std::vector<std::vector<Lease>> leases;  // of keys, in runs with items that expire
  // By number: what each write wrote, so that a reader can check that a value is whole.
  struct Write {
    int server = 0, key = 0;
    uint32_t bytes = 0;  // 0: it made a counter
  };
  std::vector<Write> writes{{}};
  int operations_left = 0;
  int64_t quiet_until_ns = 0;   // nobody begins anything: then all are busy together again
  bool healed = false;          // no faults any more
  bool opening = false;         // a server opens its group
  bool over = false;            // nobody starts any more
  int nesting = 0;              // servers that are between two stores
  rdma::sim::Party reader = 0;  // the client that reads at once, within a call
  uint64_t pauses = 0, ended_in_pauses = 0;
  std::vector<std::pair<int64_t, int64_t>> long_pauses;  // pauses of servers between two stores: begin and end
  uint64_t occurred = 0;                                 // faults of the parties that have struck, a bit each
  std::string violation;
  bool noting = false;
  std::vector<std::pair<int64_t, std::string>> notes;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_WORLD_H_
