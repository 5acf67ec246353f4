#include <algorithm>

#include "rdma/sim/random.h"
#include "tests/sim/plan.h"

namespace farlook::sim {
namespace {

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
  plan->Add(Fault::kBreaksAtClients, 10'000);
  plan->Add(Fault::kBreaksAtServers, 10'000);
  plan->Add(Fault::kClientStop, 60);
  plan->Add(Fault::kHostileClients, 40);
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

// Requests are late, or the server is stopped, and few keys are written and read all the time.
void FocusOnDeadlines(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = false;
  plan->operations = 3'000;
  plan->clients = 4;
  plan->in_flight = 4;
  plan->servers = 1;
  plan->keys = 4;
  plan->timeout_ms = 20;
  plan->window = 256;
  plan->pauses = 20'000;  // long enough for clocks to drift
  plan->network.slow_ns = 250'000'000;
  plan->faults &= BitOf(Fault::kClientClocks) | BitOf(Fault::kServerClocks) | BitOf(Fault::kClientJumps);
  plan->Add(Fault::kSlowRequests, 5'000);
  plan->Add(Fault::kServerStop, 20);
  plan->Add(Fault::kBreaksAtClients, 2'000);
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
    // Counters exist until the sweep, which runs every 256 ms; a run must last several such periods.
    plan->pauses = 40'000;
    plan->network.min_delay_ns = 100'000;
    plan->network.max_delay_ns = 400'000;
    plan->patience_ns = kLongPatienceNs;
  }
  // The server's clock may jump with a start. Jumps in between, or more drift, are not covered by the promises: a
  // client could not know the server's clock.
  plan->faults &= BitOf(Fault::kServerClocks) | BitOf(Fault::kServerJumps) | BitOf(Fault::kSlowReads) |
                  BitOf(Fault::kClientStop) | BitOf(Fault::kServerStop) | BitOf(Fault::kServerStopBetweenStores) |
                  BitOf(Fault::kServerDeath) | BitOf(Fault::kBreaksAtClients);
  plan->Add(Fault::kSlowReplies, 100'000);
  plan->Add(Fault::kSlowRequests, 20'000);
  plan->rates[static_cast<size_t>(Fault::kBreaksAtClients)] = 1'000;
}

// Each live member has all acknowledged writes, however the others end.
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
  plan->pauses = 40'000;  // a run lasts many times as long as a failover
  constexpr int64_t kSlowNs[] = {200'000, 5'000'000, 40'000'000};
  plan->network.slow_ns = kSlowNs[random.Below(3)];
  // Jumps are not tolerated: a lease is measured by the reader's clock, and by the servers'.
  plan->faults &= ~(BitOf(Fault::kClientJumps) | BitOf(Fault::kServerJumps) | BitOf(Fault::kStrangers) |
                    BitOf(Fault::kEvictions) | BitOf(Fault::kHostileClients));
  plan->Add(Fault::kServerDeath, 6);
  plan->Add(Fault::kServerStop, 12);
  if (plan->hands_over) plan->Remove(Fault::kServerDeath);
  // Drawn separately, so that runs without sockets are the same as before sockets existed.
  if (rdma::sim::Random(rdma::sim::Mix(plan->seed) + 6).OneIn(6)) TakeSockets(plan);
}

// A server that is alone in its group does not die: no other server has what it acknowledged.
void FocusOnSlots(Plan* plan) {
  FocusOnGroup(plan);
  rdma::sim::Random random(rdma::sim::Mix(plan->seed) + 4);
  plan->groups = 2;
  plan->replicas = random.OneIn(2) ? 1 : 2;
  plan->servers = plan->groups * plan->replicas;
  plan->keys = 12;
}

// Between a change of a group's record and the next action of its primary, the other group continues.
void FocusOnSlowSlots(Plan* plan) {
  FocusOnSlots(plan);
  plan->slow_directory = true;
}

// A refused write of a slot is retried at the slot's owner, the next one or the same. Other writes of the same client
// follow it, and their order is promised.
void FocusOnBusySlots(Plan* plan) {
  FocusOnSlots(plan);
  plan->handovers = 100;
  plan->slot_moves = 200;
  plan->clients = 3;
  plan->in_flight = 10;
  plan->keys = 2;
  plan->values = 0;
  plan->timeout_ms = 5'000;
  plan->directory_faults = 0;
  plan->Add(Fault::kBreaksAtClients, 4'000);
  plan->Add(Fault::kSlowRequests, 20'000);
}

// Events of items within one table, while it is copied and members are replaced. (Groups do not evict.)
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

// Memory is full but for what some of the keys need. Members have unequal room in two thirds of the runs.
void FocusOnFullGroups(Plan* plan) {
  FocusOnGroup(plan);
  plan->fills = true;
  plan->keys = 120;
  plan->operations = 1'200;
  plan->timeout_ms = 5'000;
  if (plan->has(Fault::kServerDeath)) plan->Add(Fault::kServerDeath, 3);
  plan->Add(Fault::kServerStop, 3);
  plan->nested = plan->nested_near = std::min(plan->nested, 2'000u);
}

void FocusOnBreaks(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = false;
  plan->operations = 2'000;
  plan->clients = 4;
  plan->servers = 1;
  plan->timeout_ms = 1'000;
  plan->cells_shared = false;  // many requests are not writes
  plan->faults = BitOf(Fault::kClientDeath);
  plan->Add(Fault::kBreaksAtClients, 8'000);
  plan->Add(Fault::kBreaksAtServers, 8'000);
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
  plan->Add(Fault::kBreaksAtClients, 4'000);
  plan->Add(Fault::kServerStop, 20);
  TakeSockets(plan);
}

// READs with polling in the call: nothing else is under way when they are posted.
void FocusOnReadsAtOnce(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = plan->counters = plan->evicts = false;
  plan->operations = 2'000;
  plan->clients = 6;
  plan->in_flight = 1;
  plan->calls = 80;
  plan->servers = 1;
  plan->keys = 12;
  plan->values = 3;
  plan->timeout_ms = 1'000;
  plan->mirror_bytes = 64 << 10;
  plan->network.capabilities.local = false;
  plan->network.capabilities.reads_at_once = true;
  plan->Add(Fault::kSlowReads, 50'000);
  plan->Add(Fault::kBreaksAtClients, 1'000);
  plan->Add(Fault::kServerDeath, 200);
}

// A lost wake-up never recovers: operations have more time than a run.
void FocusOnSleepers(Plan* plan) {
  plan->grows = plan->large_values = plan->long_values = plan->moves = plan->counters = plan->evicts = false;
  plan->operations = 500;
  plan->clients = 3;
  plan->in_flight = 8;
  plan->calls = 0;
  plan->servers = 1;
  plan->keys = 12;
  plan->window = 256;
  plan->timeout_ms = 3'600'000;
  plan->network.capabilities.local = false;
  plan->network.held_receives = true;
  plan->faults = BitOf(Fault::kShortReceivesAtClients) | BitOf(Fault::kShortReceivesAtServers);
}

// Many keys, or values that fill memory.
void FocusOnSize(Plan* plan) {
  if (plan->focus == Focus::kCalls) plan->calls = 60;
  plan->large_values = plan->focus == Focus::kLarge || plan->focus == Focus::kCaches;
  plan->grows = !plan->large_values;
  plan->evicts = plan->focus == Focus::kCaches;
  plan->long_values = false;
  plan->keys = plan->grows ? 300 : 80;
  plan->operations = plan->grows ? 5'000 : 1'000;
  plan->clients = 8;
  plan->in_flight = 8;
  plan->servers = 1;
  plan->values = 3;
  plan->timeout_ms = 1'000;
  plan->mirror_bytes = 64 << 10;
  plan->window = 256;
  if (plan->grows) {
    plan->faults = 0;
    plan->Add(Fault::kSlowReads, plan->focus == Focus::kCalls ? 10'000 : 100'000);
    plan->network.capabilities.max_outstanding_reads = 16;
    plan->network.slow_ns = plan->focus == Focus::kGrowth ? 1'000'000 : 600'000'000;
    plan->pauses = plan->focus == Focus::kGrowth ? 0 : 10'000;
  }
  if (plan->focus == Focus::kCalls) {
    plan->faults |= BitOf(Fault::kServerDeath);
    plan->network.capabilities.local = plan->network.capabilities.any_local_memory = true;
  }
  plan->memory_leaves = plan->focus == Focus::kShrinks;
  if (plan->focus == Focus::kShrinks) {
    plan->shrinks = true;
    plan->operations = 8'000;
    plan->pauses = 20'000;
    plan->network.slow_ns = 1'000'000;
    if (plan->seed % 2 == 0) {
      plan->calls = 60;
      plan->network.capabilities.local = plan->network.capabilities.any_local_memory = true;
    }
  }
  plan->counters = plan->moves = false;
}

}  // namespace

void TakeSockets(Plan* plan) {
  plan->sockets = plan->network.served_reads = true;
  plan->network.capabilities.local = plan->network.capabilities.atomics = false;
  plan->network.capabilities.any_local_memory = true;
  plan->cells_shared = false;
}

void FocusOn(Focus focus, Plan* plan) {
  plan->focus = focus;
  switch (focus) {
    case Focus::kAll:
      return;
    case Focus::kCounters:
      return FocusOnCounters(plan);
    case Focus::kMoves:
      return FocusOnMoves(plan);
    case Focus::kLong:
      return FocusOnLong(plan);
    case Focus::kDeadlines:
      return FocusOnDeadlines(plan);
    case Focus::kBreaks:
      return FocusOnBreaks(plan);
    case Focus::kSockets:
      return FocusOnSockets(plan);
    case Focus::kExpiry:
      return FocusOnExpiry(plan);
    case Focus::kGroup:
      return FocusOnGroup(plan);
    case Focus::kSlots:
      return FocusOnSlots(plan);
    case Focus::kSlowSlots:
      return FocusOnSlowSlots(plan);
    case Focus::kBusySlots:
      return FocusOnBusySlots(plan);
    case Focus::kGroupItems:
      return FocusOnItemsOfGroups(plan);
    case Focus::kFullGroups:
      return FocusOnFullGroups(plan);
    case Focus::kReadsAtOnce:
      return FocusOnReadsAtOnce(plan);
    case Focus::kSleepers:
      return FocusOnSleepers(plan);
    case Focus::kGrowth:
    case Focus::kSlowGrowth:
    case Focus::kLarge:
    case Focus::kShrinks:
    case Focus::kCaches:
    case Focus::kCalls:
      return FocusOnSize(plan);
  }
}

}  // namespace farlook::sim
