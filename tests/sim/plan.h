// What one simulated run is like: everything that is drawn from its seed before it begins.
#ifndef FARLOOK_TESTS_SIM_PLAN_H_
#define FARLOOK_TESTS_SIM_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "rdma/sim/options.h"

namespace farlook::sim {

// Each is switched on in half of the runs, on its own.
enum class Fault : uint8_t {
  kSlowMessages,
  kSlowReads,
  kBrokenConnections,
  kLateNotice,  // of a peer that is gone
  kLostConnects,
  kClientDeath,
  kServerDeath,
  kClientStop,
  kServerStop,  // also between two stores
  kNoMemory,    // of clients; servers get into it by large values
  kFullQueues,
  kSlowAcknowledgement,
  kClocks,     // offsets, drift and jumps
  kStrangers,  // who try to resume others' sessions
  kEvictions,  // the server keeps few sessions
  kCount,
};
inline constexpr uint32_t kAllFaults = (1u << static_cast<int>(Fault::kCount)) - 1;
absl::string_view NameOf(Fault fault);

// So long that no client exceeds it by whatever happens in a run.
inline constexpr int64_t kLongPatienceNs = 5'000'000'000;

enum class Focus : uint8_t;

struct Plan {
  uint64_t seed = 0;
  uint32_t faults = 0;  // a bit for each Fault
  int operations = 0;   // of all clients together
  int clients = 0;
  int servers = 0;
  int keys = 0;  // on each server

  // The rest follows from the seed and the focus alone.
  Focus focus{};
  bool grows = false;         // keys fill few buckets, so that they overflow and split
  bool large_values = false;  // that fill the server's memory
  int values = 0;             // what lengths they have
  int in_flight = 0;          // of one client
  int64_t timeout_ms = 0;
  int64_t cache_bytes = 0;
  uint32_t window = 0;
  uint32_t nested = 0;       // chance of going on elsewhere between two stores, per million
  uint32_t nested_near = 0;  // the same, after a store to what was READ lately
  int64_t store_ns = 0;      // that a store takes
  uint32_t pauses = 0;       // chance of quiet after an operation, per million
  bool counters = false;     // some keys name counters, some now this and now that
  bool cells_shared = true;  // clients change counters' cells themselves; else by message
  int cells = 0;             // of all counters of a server
  int64_t patience_ns = 0;   // for the acknowledgement that counters were deleted
  rdma::sim::NetworkOptions network;

  bool has(Fault fault) const { return (faults >> static_cast<int>(fault) & 1) != 0; }
  void Remove(Fault fault) { faults &= ~(1u << static_cast<int>(fault)); }
};

Plan DrawPlan(uint64_t seed);

// The same, but all of one kind: what is rare among all runs can be looked for where it is frequent.
enum class Focus : uint8_t {
  kAll,
  kGrowth,      // segments split in quick succession, while READs take long
  kSlowGrowth,  // READs take longer than the quarantine
  kLarge,       // large values in memory that is full
  kCounters,    // few counters and fewer cells
};
Plan DrawPlan(uint64_t seed, Focus focus);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_PLAN_H_
