#include "tests/sim/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farlook::sim {

std::string Describe(const Plan& plan) {
  std::string text = absl::StrCat("seed ", plan.seed, ": ", plan.operations, " operations of ", plan.clients,
                                  " clients on ", plan.keys, " keys of ", plan.servers, " servers, ",
                                  plan.sockets                      ? "over sockets"
                                  : plan.network.capabilities.local ? "on one host"
                                                                    : "by a device");
  if (plan.replicas > 0) {
    absl::StrAppend(&text, ", as ", plan.groups, plan.groups == 1 ? " group" : " groups", ", suspicion ",
                    plan.suspicion_ms, " ms, lease ", plan.lease_ms, " ms, directory faults ", plan.directory_faults,
                    plan.hands_over ? ", handed over" : "");
  }
  if (plan.counters) absl::StrAppend(&text, ", ", plan.cells, " cells, patience of ", plan.patience_ns, " ns");
  absl::StrAppend(&text, "; faults:");
  for (int i = 0; i < static_cast<int>(Fault::kCount); ++i) {
    if (plan.has(static_cast<Fault>(i))) absl::StrAppend(&text, " ", NameOf(static_cast<Fault>(i)));
  }
  return text;
}

std::string Explain(const Plan& plan, Break broken) {
  const Plan small = ShrinkPlan(plan, broken);
  const RunResult result = RunPlan(small, broken, /*noting=*/true);
  return absl::StrCat(Describe(small), "\n", result.trace, result.violation, "\nto run it again:\n    ",
                      CommandFor(small, broken), "\nas it was before shrinking:\n    ", CommandFor(plan, broken), "\n");
}

void Totals::Add(const RunResult& result) {
  ++runs;
  undecided += result.undecided;
  sum.operations += result.operations;
  sum.events += result.events;
  sum.splits += result.splits;
  sum.moved_items += result.moved_items;
  sum.moved_in_growth += result.moved_in_growth;
  sum.read_retries += result.read_retries;
  sum.cached_hits += result.cached_hits;
  sum.stale_locations += result.stale_locations;
  sum.pauses += result.pauses;
  sum.ended_in_pauses += result.ended_in_pauses;
  sum.server_gets += result.server_gets;
  sum.ended_at_once += result.ended_at_once;
  sum.read_at_once += result.read_at_once;
  sum.hostile_connections += result.hostile_connections;
  sum.long_found += result.long_found;
  sum.directory_refreshes += result.directory_refreshes;
  sum.reconnects += result.reconnects;
  sum.resent_requests += result.resent_requests;
  sum.pulled_values += result.pulled_values;
  sum.timeouts += result.timeouts;
  sum.restarts += result.restarts;
  sum.epochs += result.epochs;
  sum.slot_moves += result.slot_moves;
  sum.no_memory += result.no_memory;
  sum.atomics += result.atomics;
  sum.counter_requests += result.counter_requests;
  sum.dead_cells += result.dead_cells;
  sum.unknown_atomics += result.unknown_atomics;
  for (size_t a = 0; a < kFaults; ++a) {
    for (size_t b = 0; b < kFaults; ++b) together[a][b] += result.occurred >> a & result.occurred >> b & 1;
  }
}

std::string Totals::PairsNotSeen() const {
  std::string text;
  for (size_t a = 0; a < kFaults; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      if (together[a][b] != 0 || (kAllFaults >> a & kAllFaults >> b & 1) == 0) continue;
      absl::StrAppend(&text, NameOf(static_cast<Fault>(a)), " with ", NameOf(static_cast<Fault>(b)), "\n");
    }
  }
  return text;
}

uint64_t Totals::RarestPair() const {
  uint64_t least = runs;
  for (size_t a = 0; a < kFaults; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      if ((kAllFaults >> a & kAllFaults >> b & 1) != 0) least = std::min<uint64_t>(least, together[a][b]);
    }
  }
  return least;
}

std::string Totals::ToString() const {
  return absl::StrCat(
      runs, " runs, ", undecided, " undecided; operations ", sum.operations, ", events ", sum.events,
      ", pauses between stores ", sum.pauses, ", operations ended in them ", sum.ended_in_pauses, ", cached hits ",
      sum.cached_hits, ", splits ", sum.splits, ", moved items ", sum.moved_items, ", of them in growth ",
      sum.moved_in_growth, ", read retries ", sum.read_retries, ", stale locations ", sum.stale_locations,
      ", gets by message ", sum.server_gets, ", gets of more than a page ", sum.long_found, ", hostile connections ",
      sum.hostile_connections, ", gets at once ", sum.ended_at_once, ", between hosts ", sum.read_at_once,
      ", directory refreshes ", sum.directory_refreshes, ", reconnects ", sum.reconnects, ", requests sent again ",
      sum.resent_requests, ", pulled values ", sum.pulled_values, ", timeouts ", sum.timeouts, ", server deaths ",
      sum.restarts, ", epochs ", sum.epochs, ", moves of slots ", sum.slot_moves, ", replies of no memory ",
      sum.no_memory, ", atomics ", sum.atomics, ", requests about counters ", sum.counter_requests, ", dead cells met ",
      sum.dead_cells, ", unknown atomics ", sum.unknown_atomics);
}

}  // namespace farlook::sim
