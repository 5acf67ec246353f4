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

// Rare or frequent, each on its own.
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

// What tcp:// is to those who use it.
void TakeSockets(Plan* plan) {
  plan->sockets = plan->network.served_reads = true;
  plan->network.capabilities.local = plan->network.capabilities.atomics = false;
  plan->network.capabilities.any_local_memory = true;
  plan->cells_shared = false;
}

// Of a network of devices, or of one host.
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
    plan.timeout_ms = 1'000;  // they take long, and what is over is not done any more
    plan.operations = static_cast<int>(random.Between(60, 150));
    plan.keys = static_cast<int>(random.Between(2, 8));
    // Each of them is a great many stores.
    plan.nested = plan.nested_near = static_cast<uint32_t>(random.Between(5, 500));
    network.capabilities.max_read_bytes = std::max<uint64_t>(network.capabilities.max_read_bytes, 64 << 10);
  }
  return plan;
}

void FocusOnCounters(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = false;
  plan->counters = plan->cells_shared = true;
  plan->operations = 3'000;
  plan->clients = 5;
  plan->in_flight = 4;
  plan->servers = 1;
  plan->keys = 12;
  plan->cells = 4;
  plan->patience_ns = 40'000;  // some round trips
  for (const Fault fault : {Fault::kBreaksAtClients, Fault::kBreaksAtServers, Fault::kClientStop}) {
    plan->faults |= BitOf(fault);
    plan->rates[static_cast<size_t>(fault)] = fault == Fault::kClientStop ? 60 : 10'000;
  }
  plan->faults |= BitOf(Fault::kHostileClients);
  plan->rates[static_cast<size_t>(Fault::kHostileClients)] = 40;
}

void FocusOnLong(Plan* plan) {
  plan->grows = plan->moves = plan->counters = false;
  plan->large_values = plan->long_values = true;
  plan->operations = 120;
  plan->clients = 6;
  plan->in_flight = 3;
  plan->servers = 1;
  plan->keys = 2;
  plan->nested = plan->nested_near = 200;
  plan->network.capabilities.max_read_bytes = 256 << 10;
}

void FocusOnMoves(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->counters = false;
  plan->moves = true;
  plan->operations = 1'500;
  plan->clients = 6;
  plan->in_flight = 3;
  plan->servers = 1;
  plan->keys = 16;
  plan->mirror_bytes = 64 << 10;
}

// Requests are late, or the server stands still, and few keys are written and read all the time.
void FocusOnDeadlines(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = false;
  plan->operations = 3'000;
  plan->clients = 4;
  plan->in_flight = 4;
  plan->servers = 1;
  plan->keys = 4;
  plan->timeout_ms = 20;
  plan->window = 256;
  plan->pauses = 20'000;  // so that it takes long enough for clocks to drift
  plan->network.slow_ns = 250'000'000;
  plan->faults &= BitOf(Fault::kClientClocks) | BitOf(Fault::kServerClocks) | BitOf(Fault::kClientJumps);
  plan->faults |= BitOf(Fault::kSlowRequests) | BitOf(Fault::kServerStop) | BitOf(Fault::kBreaksAtClients);
  plan->rates[static_cast<size_t>(Fault::kSlowRequests)] = 5'000;
  plan->rates[static_cast<size_t>(Fault::kServerStop)] = 20;
  plan->rates[static_cast<size_t>(Fault::kBreaksAtClients)] = 2'000;
}

void FocusOnExpiry(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = plan->counters = false;
  plan->expires = true;
  plan->evicts = plan->large_values = plan->seed % 4 == 0;
  plan->operations = 3'000;
  plan->clients = 4;
  plan->in_flight = 3;
  plan->servers = 1;
  plan->keys = 4;
  plan->timeout_ms = 1'000;
  plan->pauses = 2'000;
  // A run takes many times a ttl.
  plan->network.min_delay_ns = 10'000;
  plan->network.max_delay_ns = 60'000;
  plan->network.slow_ns = 1'000'000;
  if (plan->evicts) {
    plan->operations = 1'200;
    plan->clients = 6;
    plan->keys = 80;
    plan->values = 3;
  }
  plan->counters = plan->seed % 4 == 1;
  if (plan->counters) {
    // Counters are there until the sweep comes, which looks every 256 ms, and runs take some of those.
    plan->pauses = 40'000;
    plan->network.min_delay_ns = 100'000;
    plan->network.max_delay_ns = 400'000;
    plan->patience_ns = kLongPatienceNs;
  }
  // The server's clock may jump with a start. What jumps, or drifts further, in between is not promised: nobody could
  // know the server's.
  plan->faults &= BitOf(Fault::kServerClocks) | BitOf(Fault::kServerJumps) | BitOf(Fault::kSlowReads) |
                  BitOf(Fault::kClientStop) | BitOf(Fault::kServerStop) | BitOf(Fault::kServerStopBetweenStores) |
                  BitOf(Fault::kServerDeath) | BitOf(Fault::kBreaksAtClients);
  plan->faults |= BitOf(Fault::kSlowReplies) | BitOf(Fault::kSlowRequests);
  plan->rates[static_cast<size_t>(Fault::kSlowReplies)] = 100'000;
  plan->rates[static_cast<size_t>(Fault::kSlowRequests)] = 20'000;
  plan->rates[static_cast<size_t>(Fault::kBreaksAtClients)] = 1'000;
}

// Whoever is alive and a member has what was acknowledged, however the others end.
void FocusOnGroup(Plan* plan) {
  rdma::sim::Random random(rdma::sim::Mix(plan->seed) + 3);
  plan->grows = plan->large_values = plan->long_values = plan->moves = plan->counters = plan->evicts = false;
  plan->memory_leaves = false;
  plan->replicas = plan->servers = random.OneIn(3) ? 3 : 2;
  plan->suspicion_ms = random.Between(20, 60);
  plan->lease_ms = random.Between(2, 20);
  plan->directory_faults = static_cast<uint32_t>(random.OneIn(3) ? 0 : random.Between(50'000, 500'000));
  plan->hands_over = random.OneIn(3);
  plan->operations = 1'500;
  plan->clients = 4;
  plan->in_flight = 3;
  plan->keys = 6;
  plan->timeout_ms = random.OneIn(4) ? 50 : 5'000;
  plan->pauses = 40'000;  // a run takes many times what a failover does
  constexpr int64_t kSlowNs[] = {200'000, 5'000'000, 40'000'000};
  plan->network.slow_ns = kSlowNs[random.Below(3)];
  // What jumps is not borne: a lease is counted by the reader's clock, and by the servers'.
  plan->faults &= ~(BitOf(Fault::kClientJumps) | BitOf(Fault::kServerJumps) | BitOf(Fault::kStrangers) |
                    BitOf(Fault::kEvictions) | BitOf(Fault::kHostileClients));
  plan->faults |= BitOf(Fault::kServerDeath) | BitOf(Fault::kServerStop);
  if (plan->hands_over) plan->Remove(Fault::kServerDeath);
  plan->rates[static_cast<size_t>(Fault::kServerDeath)] = 6;
  plan->rates[static_cast<size_t>(Fault::kServerStop)] = 12;
}

// A server that is alone in its group does not die: nobody else has what it acknowledged.
void FocusOnSlots(Plan* plan) {
  FocusOnGroup(plan);
  rdma::sim::Random random(rdma::sim::Mix(plan->seed) + 4);
  plan->groups = 2;
  plan->replicas = random.OneIn(2) ? 1 : 2;
  plan->servers = plan->groups * plan->replicas;
  plan->keys = 12;
}

// What befalls items within one table, while that is copied and others take its place. (Groups do not evict.)
void FocusOnItemsOfGroups(Plan* plan) {
  rdma::sim::Random random(rdma::sim::Mix(plan->seed) + 5);
  random.OneIn(4) ? FocusOnSlots(plan) : FocusOnGroup(plan);
  plan->cells_shared = false;  // counters lie in their items
  switch (random.Below(4)) {
    case 0:
      plan->grows = true;
      plan->keys = 200;
      plan->values = 3;
      plan->operations = 3'000;
      break;
    case 1:
      plan->large_values = true;
      plan->keys = 80;
      plan->values = 3;
      plan->operations = 600;
      break;
    case 2:
      plan->moves = true;
      plan->keys = 16;
      plan->operations = 800;
      break;
    default:
      plan->expires = true;
      plan->keys = 4;
      break;
  }
  plan->counters = plan->expires ? random.OneIn(2) : random.OneIn(4);
  if (plan->counters) plan->keys = std::max(plan->keys, 8);
  if (!plan->large_values && !plan->moves) return;
  // A joiner is sent megabytes.
  plan->rates[static_cast<size_t>(Fault::kServerDeath)] = 3;
  plan->nested = plan->nested_near = std::min(plan->nested, 2'000u);
}

void FocusOnBreaks(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = false;
  plan->operations = 2'000;
  plan->clients = 4;
  plan->servers = 1;
  plan->timeout_ms = 1'000;
  plan->cells_shared = false;  // much is asked for that is no write
  plan->faults = BitOf(Fault::kBreaksAtClients) | BitOf(Fault::kBreaksAtServers) | BitOf(Fault::kClientDeath);
  plan->rates[static_cast<size_t>(Fault::kBreaksAtClients)] = 8'000;
  plan->rates[static_cast<size_t>(Fault::kBreaksAtServers)] = 8'000;
}

// Many gets at once of few keys, which have several lengths.
void FocusOnSockets(Plan* plan) {
  plan->large_values = plan->long_values = plan->moves = false;
  plan->operations = 2'000;
  plan->clients = 4;
  plan->in_flight = 8;
  plan->servers = 1;
  plan->keys = 12;
  plan->timeout_ms = 1'000;
  for (const Fault fault : {Fault::kBreaksAtClients, Fault::kServerStop}) {
    plan->faults |= BitOf(fault);
    plan->rates[static_cast<size_t>(fault)] = fault == Fault::kServerStop ? 20 : 4'000;
  }
  TakeSockets(plan);
}

}  // namespace

Plan DrawPlan(uint64_t seed) {
  Plan plan = DrawWithoutSockets(seed);
  // Drawn on its own, so that a run without them is what it was before there were sockets.
  if (rdma::sim::Random(rdma::sim::Mix(seed) + 2).OneIn(6)) TakeSockets(&plan);
  return plan;
}

Plan DrawPlan(uint64_t seed, Focus focus) {
  if (focus == Focus::kAll) return DrawPlan(seed);
  Plan plan = DrawWithoutSockets(seed);
  plan.focus = focus;
  if (focus == Focus::kSockets) {
    FocusOnSockets(&plan);
    return plan;
  }
  if (focus == Focus::kCounters) {
    FocusOnCounters(&plan);
    return plan;
  }
  if (focus == Focus::kLong) {
    FocusOnLong(&plan);
    return plan;
  }
  if (focus == Focus::kMoves) {
    FocusOnMoves(&plan);
    return plan;
  }
  if (focus == Focus::kDeadlines) {
    FocusOnDeadlines(&plan);
    return plan;
  }
  if (focus == Focus::kExpiry) {
    FocusOnExpiry(&plan);
    return plan;
  }
  if (focus == Focus::kGroup) {
    FocusOnGroup(&plan);
    return plan;
  }
  if (focus == Focus::kSlots) {
    FocusOnSlots(&plan);
    return plan;
  }
  if (focus == Focus::kGroupItems) {
    FocusOnItemsOfGroups(&plan);
    return plan;
  }
  if (focus == Focus::kBreaks) {
    FocusOnBreaks(&plan);
    return plan;
  }
  if (focus == Focus::kCalls) plan.calls = 60;
  plan.large_values = focus == Focus::kLarge || focus == Focus::kCaches;
  plan.grows = !plan.large_values;
  plan.evicts = focus == Focus::kCaches;
  plan.long_values = false;
  plan.keys = plan.grows ? 300 : 80;
  plan.operations = plan.grows ? 5'000 : 1'000;
  plan.clients = 8;
  plan.in_flight = 8;
  plan.servers = 1;
  plan.values = 3;
  plan.timeout_ms = 1'000;
  plan.mirror_bytes = 64 << 10;
  plan.window = 256;
  if (plan.grows) {
    plan.faults = BitOf(Fault::kSlowReads);
    plan.network.capabilities.max_outstanding_reads = 16;
    plan.rates[static_cast<size_t>(Fault::kSlowReads)] = 100'000;
    plan.network.slow_ns = focus == Focus::kGrowth ? 1'000'000 : 600'000'000;
    plan.pauses = focus == Focus::kGrowth ? 0 : 10'000;
  }
  if (focus == Focus::kCalls) {
    plan.faults |= BitOf(Fault::kServerDeath);
    plan.network.capabilities.local = plan.network.capabilities.any_local_memory = true;
    plan.rates[static_cast<size_t>(Fault::kSlowReads)] = 10'000;
  }
  plan.memory_leaves = focus == Focus::kShrinks;
  if (focus == Focus::kShrinks) {
    plan.shrinks = true;
    plan.operations = 8'000;
    plan.pauses = 20'000;
    plan.network.slow_ns = 1'000'000;
    if (seed % 2 == 0) {
      plan.calls = 60;
      plan.network.capabilities.local = plan.network.capabilities.any_local_memory = true;
    }
  }
  plan.counters = plan.moves = false;
  return plan;
}

}  // namespace farlook::sim
