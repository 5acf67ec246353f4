#include "tests/sim/plan.h"

#include <algorithm>

#include "rdma/sim/random.h"

namespace farlook::sim {

absl::string_view NameOf(Fault fault) {
  static constexpr absl::string_view kNames[] = {
      "slow_messages", "slow_reads",  "broken_connections", "late_notice", "lost_connects", "client_death",
      "server_death",  "client_stop", "server_stop",        "no_memory",   "full_queues",   "slow_acknowledgement",
      "clocks",        "strangers",   "evictions"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<size_t>(Fault::kCount));
  return kNames[static_cast<size_t>(fault)];
}

Plan DrawPlan(uint64_t seed) {
  rdma::sim::Random random(rdma::sim::Mix(seed) + 1);
  Plan plan;
  plan.seed = seed;
  plan.faults = static_cast<uint32_t>(random.Next()) & kAllFaults;
  if (random.OneIn(8)) plan.faults = 0;
  plan.clients = static_cast<int>(random.Between(1, 8));
  plan.servers = random.OneIn(4) ? 2 : 1;
  plan.grows = random.OneIn(2);
  plan.large_values = !plan.grows && random.OneIn(5);
  plan.operations = static_cast<int>(plan.large_values ? random.Between(500, 900)
                                     : plan.grows      ? random.Between(3'000, 6'000)
                                                       : random.Between(1'500, 4'000));
  plan.keys = static_cast<int>(plan.grows          ? random.Between(150, 400)
                               : plan.large_values ? random.Between(60, 90)
                                                   : random.Between(2, 24));
  plan.values = static_cast<int>(random.Below(4));
  if (plan.large_values) plan.values = 3;  // few sizes, so that several slabs are of one
  plan.in_flight = static_cast<int>(random.Between(1, 10));
  plan.timeout_ms = random.OneIn(2) ? 1'000 : random.Between(5, 200);
  plan.cache_bytes = random.OneIn(6) ? 0 : random.OneIn(3) ? 256 : 64 << 10;
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
  const bool rare = random.OneIn(2);
  network.slow_message = rare ? 1'000 : 20'000;
  network.slow_read = rare ? 2'000 : 100'000;
  // Around the time for which a READ of a bucket is believed, or a segment kept, or far below.
  constexpr int64_t kSlowNs[] = {20'000, 200'000, 5'000'000, 40'000'000, 250'000'000};
  network.slow_ns = kSlowNs[random.Below(5)];
  network.broken = static_cast<uint32_t>(rare ? 1'000 : 8'000);
  network.max_notice_ns = random.OneIn(2) ? 1'000'000 : 300'000'000;
  network.lost_connect = 150'000;
  network.no_memory = 100'000;
  network.max_ack_ns = 50'000;
  network.receives = static_cast<uint32_t>(random.Between(1, 4));
  network.capabilities.send_queue_depth = static_cast<uint32_t>(random.Between(1, 6));

  plan.counters = !random.OneIn(4) && !plan.large_values;
  plan.cells_shared = !random.OneIn(6);
  plan.cells = static_cast<int>(random.OneIn(2) ? random.Between(1, 6) : random.Between(10, 60));
  plan.patience_ns = random.OneIn(3) ? random.Between(1'000'000, 50'000'000) : kLongPatienceNs;
  return plan;
}

namespace {

void FocusOnCounters(Plan* plan) {
  plan->grows = plan->large_values = false;
  plan->counters = plan->cells_shared = true;
  plan->operations = 3'000;
  plan->clients = 5;
  plan->in_flight = 4;
  plan->servers = 1;
  plan->keys = 12;
  plan->cells = 4;
  plan->patience_ns = 40'000;  // some round trips
  plan->network.broken = 10'000;
  plan->faults |= 1u << static_cast<int>(Fault::kBrokenConnections) | 1u << static_cast<int>(Fault::kClientStop);
}

}  // namespace

Plan DrawPlan(uint64_t seed, Focus focus) {
  Plan plan = DrawPlan(seed);
  plan.focus = focus;
  if (focus == Focus::kAll) return plan;
  if (focus == Focus::kCounters) {
    FocusOnCounters(&plan);
    return plan;
  }
  plan.grows = focus != Focus::kLarge;
  plan.large_values = focus == Focus::kLarge;
  plan.keys = plan.grows ? 300 : 80;
  plan.operations = plan.grows ? 5'000 : 1'000;
  plan.clients = 8;
  plan.in_flight = 8;
  plan.servers = 1;
  plan.values = 3;
  plan.timeout_ms = 1'000;
  plan.cache_bytes = 64 << 10;
  plan.window = 256;
  if (plan.grows) {
    plan.faults = 1u << static_cast<int>(Fault::kSlowReads);
    plan.network.capabilities.max_outstanding_reads = 16;
    plan.network.slow_read = 100'000;
    plan.network.slow_ns = focus == Focus::kGrowth ? 1'000'000 : 300'000'000;
    plan.pauses = focus == Focus::kGrowth ? 0 : 10'000;
  }
  plan.counters = false;
  return plan;
}

}  // namespace farlook::sim
