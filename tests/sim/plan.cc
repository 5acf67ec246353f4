#include "tests/sim/plan.h"

#include <algorithm>

#include "rdma/sim/random.h"

namespace farlook::sim {

absl::string_view NameOf(Fault fault) {
  static constexpr absl::string_view kNames[] = {"slow_requests",
                                                 "slow_replies",
                                                 "slow_connects",
                                                 "slow_answers",
                                                 "slow_reads",
                                                 "slow_pulls",
                                                 "breaks_at_clients",
                                                 "breaks_at_servers",
                                                 "late_notice_at_clients",
                                                 "late_notice_at_servers",
                                                 "lost_connects",
                                                 "lost_answers",
                                                 "no_memory_at_clients",
                                                 "unused_memory",
                                                 "slow_acks_to_clients",
                                                 "slow_acks_to_servers",
                                                 "slow_atomics",
                                                 "unused_atomics",
                                                 "short_send_queues",
                                                 "short_receives_at_clients",
                                                 "short_receives_at_servers",
                                                 "client_death",
                                                 "server_death",
                                                 "client_stop",
                                                 "server_stop",
                                                 "server_stop_between_stores",
                                                 "client_clocks",
                                                 "server_clocks",
                                                 "client_jumps",
                                                 "server_jumps",
                                                 "strangers",
                                                 "evictions",
                                                 "hostile_clients"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<size_t>(Fault::kCount));
  return kNames[static_cast<size_t>(fault)];
}

namespace {

// Rare or frequent, independently.
void DrawRates(rdma::sim::Random* random, Plan* plan) {
  struct Rates {
    Fault fault;
    uint32_t rare, frequent;
  };
  constexpr Rates kRates[] = {
      {Fault::kSlowRequests, 1'000, 20'000},
      {Fault::kSlowReplies, 1'000, 20'000},
      {Fault::kSlowConnects, 20'000, 200'000},
      {Fault::kSlowAnswers, 20'000, 200'000},
      {Fault::kSlowReads, 2'000, 100'000},
      {Fault::kSlowPulls, 2'000, 100'000},
      {Fault::kSlowAtomics, 2'000, 100'000},
      {Fault::kBreaksAtClients, 1'000, 8'000},
      {Fault::kBreaksAtServers, 1'000, 8'000},
      {Fault::kLateNoticeAtClients, 500'000, 1'000'000},
      {Fault::kLateNoticeAtServers, 500'000, 1'000'000},
      {Fault::kLostConnects, 100'000, 200'000},
      {Fault::kLostAnswers, 100'000, 200'000},
      {Fault::kNoMemoryAtClients, 50'000, 150'000},
      {Fault::kSlowAcksToClients, 300'000, 1'000'000},
      {Fault::kSlowAcksToServers, 300'000, 1'000'000},
      {Fault::kClientDeath, 2, 4},
      {Fault::kServerDeath, 1, 2},
      {Fault::kClientStop, 4, 12},
      {Fault::kServerStop, 2, 6},
      {Fault::kServerStopBetweenStores, 8'000, 24'000},  // of pauses, per million
      {Fault::kClientJumps, 2, 6},
      {Fault::kServerJumps, 2, 6},
      {Fault::kStrangers, 2, 6},
      {Fault::kHostileClients, 2, 10},
  };
  for (const Rates& rates : kRates) {
    plan->rates[static_cast<size_t>(rates.fault)] = random->OneIn(2) ? rates.rare : rates.frequent;
  }
}

// Draws a plan over devices, or on one host.
Plan DrawWithoutSockets(uint64_t seed) {
  rdma::sim::Random random(rdma::sim::Mix(seed) + 1);
  Plan plan;
  plan.seed = seed;
  plan.faults = random.Next() & kAllFaults;
  if (random.OneIn(8)) plan.faults = 0;
  plan.clients = static_cast<int>(random.Between(1, 8));
  plan.servers = random.OneIn(4) ? 2 : 1;
  plan.grows = random.OneIn(2);
  plan.large_values = !plan.grows && random.OneIn(5);
  plan.moves = !plan.large_values && random.OneIn(6);
  plan.operations = static_cast<int>(plan.large_values           ? random.Between(500, 900)
                                     : plan.grows && !plan.moves ? random.Between(3'000, 6'000)
                                                                 : random.Between(1'500, 4'000));
  plan.keys = static_cast<int>(plan.grows          ? random.Between(150, 400)
                               : plan.large_values ? random.Between(60, 90)
                                                   : random.Between(2, 24));
  plan.values = static_cast<int>(random.Below(4));
  if (plan.large_values) plan.values = 3;  // few sizes
  plan.in_flight = static_cast<int>(random.Between(1, 10));
  plan.timeout_ms = random.OneIn(2) ? 1'000 : random.Between(5, 200);
  plan.mirror_bytes = random.OneIn(6) ? 0 : random.OneIn(3) ? 256 : 64 << 10;
  plan.window = static_cast<uint32_t>(random.OneIn(3) ? 256 : random.Between(1, 8));
  plan.nested = static_cast<uint32_t>(random.OneIn(3) ? 5'000 : random.Between(20'000, 150'000));
  plan.nested_near = static_cast<uint32_t>(random.OneIn(3) ? 0 : random.Between(20'000, 400'000));
  plan.store_ns = random.OneIn(2) ? 1 : random.Between(5, 200);
  constexpr uint32_t kPauses[] = {300, 2'000, 10'000, 40'000};
  plan.pauses = kPauses[random.Below(4)];

  rdma::sim::NetworkOptions& network = plan.network;
  network.capabilities.local = random.OneIn(2);
  network.capabilities.any_local_memory = network.capabilities.local || random.OneIn(3);
  network.capabilities.max_outstanding_reads = static_cast<uint32_t>(random.Between(1, 16));
  network.capabilities.max_read_sges = static_cast<uint32_t>(random.Between(1, rdma::kMaxReadSges));
  network.capabilities.max_read_bytes = random.OneIn(2) ? uint64_t{1} << 20 : uint64_t{4096} << random.Below(4);
  network.min_delay_ns = random.Between(100, 1'000);
  network.max_delay_ns = network.min_delay_ns * random.Between(1, 8);
  // Around the time for which a READ of a bucket is believed, or a segment kept, or far below.
  constexpr int64_t kSlowNs[] = {20'000, 200'000, 5'000'000, 40'000'000, 250'000'000};
  network.slow_ns = kSlowNs[random.Below(5)];
  network.max_notice_ns = random.OneIn(2) ? 1'000'000 : 300'000'000;
  network.max_ack_ns = 50'000;
  for (uint32_t& receives : network.receives) receives = static_cast<uint32_t>(random.Between(1, 4));
  network.capabilities.send_queue_depth = static_cast<uint32_t>(random.Between(1, 6));
  DrawRates(&random, &plan);

  plan.memory_leaves = seed % 2 == 0;
  plan.evicts = seed % 3 == 0 && (plan.large_values || plan.moves);
  plan.counters = !random.OneIn(4) && !plan.large_values && !plan.moves;
  plan.cells_shared = !random.OneIn(6);
  plan.cells = static_cast<int>(random.OneIn(2) ? random.Between(1, 6) : random.Between(10, 60));
  plan.patience_ns = random.OneIn(3) ? random.Between(1'000'000, 50'000'000) : kLongPatienceNs;
  plan.calls = static_cast<int>(random.OneIn(3) ? 0 : random.Between(5, 60));
  if (plan.large_values && random.OneIn(4)) {
    plan.long_values = true;
    plan.timeout_ms = 1'000;  // they take long, and expired requests are not executed any more
    plan.operations = static_cast<int>(random.Between(60, 150));
    plan.keys = static_cast<int>(random.Between(2, 8));
    // Each of them makes a great many stores.
    plan.nested = plan.nested_near = static_cast<uint32_t>(random.Between(5, 500));
    network.capabilities.max_read_bytes = std::max<uint64_t>(network.capabilities.max_read_bytes, 64 << 10);
  }
  return plan;
}

}  // namespace

Plan DrawPlan(uint64_t seed) {
  Plan plan = DrawWithoutSockets(seed);
  // Drawn separately, so that runs without sockets are the same as before sockets existed.
  if (rdma::sim::Random(rdma::sim::Mix(seed) + 2).OneIn(6)) TakeSockets(&plan);
  return plan;
}

Plan DrawPlan(uint64_t seed, Focus focus) {
  if (focus == Focus::kAll) return DrawPlan(seed);
  Plan plan = DrawWithoutSockets(seed);
  FocusOn(focus, &plan);
  return plan;
}

}  // namespace farlook::sim
