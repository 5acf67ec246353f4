// What one simulated run is like: everything that is drawn from its seed before it begins.
#ifndef FARLOOK_TESTS_SIM_PLAN_H_
#define FARLOOK_TESTS_SIM_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "rdma/sim/network.h"
#include "rdma/sim/options.h"

namespace farlook::sim {

// The places where something can go wrong. Each is switched on in half of the runs, on its own, and has a rate of its
// own. First those of the network, in the order of rdma::sim::SiteOf().
enum class Fault : uint8_t {
  kSlowRequests,
  kSlowReplies,
  kSlowConnects,
  kSlowAnswers,
  kSlowReads,
  kSlowPulls,
  kBreaksAtClients,
  kBreaksAtServers,
  kLateNoticeAtClients,  // that the peer is gone
  kLateNoticeAtServers,
  kLostConnects,
  kLostAnswers,
  kNoMemoryAtClients,
  kUnusedMemory,  // servers allocate no buffers; for values they have too little in runs with large ones
  kSlowAcksToClients,
  kSlowAcksToServers,
  kSlowAtomics,
  kUnusedAtomics,  // servers do none
  kShortSendQueues,
  kShortReceivesAtClients,
  kShortReceivesAtServers,
  // Of the parties.
  kClientDeath,
  kServerDeath,
  kClientStop,
  kServerStop,
  kServerStopBetweenStores,
  kClientClocks,  // offsets and drift
  kServerClocks,
  kClientJumps,
  kServerJumps,
  kStrangers,       // who try to resume others' sessions
  kEvictions,       // the server keeps few sessions
  kHostileClients,  // who keep no promise
  kCount,
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::kCount);
constexpr Fault FaultOf(rdma::sim::NetworkFault fault, int side) {
  return static_cast<Fault>(rdma::sim::SiteOf(fault, side));
}
static_assert(FaultOf(rdma::sim::NetworkFault::kSlowAtomic, rdma::sim::kClient) == Fault::kSlowAtomics);
static_assert(static_cast<size_t>(Fault::kShortSendQueues) == rdma::sim::Network::kFullSends);
static_assert(static_cast<size_t>(Fault::kShortReceivesAtClients) == rdma::sim::Network::kFullReceives);
constexpr uint64_t BitOf(Fault fault) { return uint64_t{1} << static_cast<int>(fault); }
inline constexpr uint64_t kAllFaults =
    (BitOf(Fault::kCount) - 1) & ~BitOf(Fault::kUnusedMemory) & ~BitOf(Fault::kUnusedAtomics);
absl::string_view NameOf(Fault fault);

// So long that no client exceeds it by whatever happens in a run.
inline constexpr int64_t kLongPatienceNs = 5'000'000'000;

// Length of the values that lie in sparse blocks, in runs with moves.
inline constexpr uint32_t kSparseBytes = 3'700;

// Whether servers that evict keep a key: its items are put so.
constexpr bool IsKept(int key) { return key % 4 == 0; }

enum class Focus : uint8_t;

struct Plan {
  uint64_t seed = 0;
  uint64_t faults = 0;  // a bit for each Fault
  int operations = 0;   // of all clients together
  int clients = 0;
  int servers = 0;
  int keys = 0;  // on each server

  // The rest follows from the seed and the focus alone.
  Focus focus{};
  bool memory_leaves = false;  // the index, as soon as it is not wanted there
  bool shrinks = false;        // after they grew, keys become few
  bool grows = false;          // keys fill few buckets, so that they overflow and split
  bool large_values = false;   // that fill the server's memory
  bool long_values = false;    // some longer than a page of the server's memory
  bool expires = false;        // puts have a ttl, and are touched
  bool evicts = false;         // servers are caches; every fourth key is kept
  bool moves = false;          // items move, since memory is full and its blocks sparse
  int values = 0;              // what lengths they have
  int in_flight = 0;           // of one client
  int64_t timeout_ms = 0;
  int64_t mirror_bytes = 0;
  uint32_t window = 0;
  uint32_t nested = 0;       // chance of going on elsewhere between two stores, per million
  uint32_t nested_near = 0;  // the same, after a store to what was READ lately
  int64_t store_ns = 0;      // that a store takes
  uint32_t pauses = 0;       // chance of quiet after an operation, per million
  bool counters = false;     // some keys name counters, some now this and now that
  bool cells_shared = true;  // clients change counters' cells themselves; else by message
  bool sockets = false;      // as over tcp://: servers serve READs, do no atomics, and are asked for most values
  int cells = 0;             // of all counters of a server
  int calls = 0;            // of what clients do, per cent: begun by calls that wait, so READ at once where that can be
  int64_t patience_ns = 0;  // for the acknowledgement that counters were deleted
  rdma::sim::NetworkOptions network;

  // How often a fault strikes that is on: of the network, per million; else in a run, about.
  std::array<uint32_t, kFaults> rates{};

  // The servers are replicas of groups, so many of each; 0: each has a table of its own.
  int replicas = 0;
  int groups = 1;  // several: of one cluster, whose slots move
  int64_t suspicion_ms = 0, lease_ms = 0;
  uint32_t directory_faults = 0;  // of its calls, per million
  bool slow_directory = false;    // its calls take time, in which others go on
  bool hands_over = false;        // an operator does, so often in a run, about; servers do not die then
  uint64_t handovers = 8;
  uint64_t slot_moves = 40;  // that are asked for in a run with several groups, about; some are cancelled

  // With tables of their own: histories are of these.
  int tables() const { return replicas > 0 ? 1 : servers; }

  bool has(Fault fault) const { return (faults & BitOf(fault)) != 0; }
  uint32_t rate(Fault fault) const { return rates[static_cast<size_t>(fault)]; }
  void Remove(Fault fault) { faults &= ~BitOf(fault); }
  void Add(Fault fault, uint32_t rate) {
    faults |= BitOf(fault);
    rates[static_cast<size_t>(fault)] = rate;
  }
};

Plan DrawPlan(uint64_t seed);

// The same, but all of one kind: what is rare among all runs can be looked for where it is frequent.
enum class Focus : uint8_t {
  kAll,
  kGrowth,      // segments split in quick succession, while READs take long
  kSlowGrowth,  // READs take longer than the quarantine
  kLarge,       // large values in memory that is full
  kCounters,    // few counters and fewer cells
  kMoves,       // memory full of sparse blocks
  kLong,        // values longer than a page
  kDeadlines,   // operations end by their deadlines while their requests are late; clocks are wrong
  kBreaks,      // connections break all the time, and nothing else does
  kShrinks,     // keys come and then go, so that segments merge, and memory leaves the index
  kCaches,      // large values in caches that are full
  kCalls,       // growth, and gets at once whose clients are stopped in the middle; servers die
  kSockets,     // all of them over sockets, in connections that break
  kExpiry,      // items expire while they are read, touched, swept and evicted; clocks drift as far as is allowed for
  kGroup,       // replicas that die, stop, hand over, and change places, by a directory that answers late or not at all
  kSlots,       // the same of two groups, between which slots move
  kGroupItems,  // groups, some of them two, whose items are many, or large, or move, or expire, or are counters
  kSlowSlots,   // as kSlots, and a call of the directory may take longer than a lease lasts, or a failover
  kBusySlots,   // slots that move while clients have many writes of few keys under way, in connections that break
  kReadsAtOnce,  // calls that wait for one get, and look for its READ; connections break, and servers die
};
inline constexpr int kFoci = static_cast<int>(Focus::kReadsAtOnce) + 1;
Plan DrawPlan(uint64_t seed, Focus focus);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_PLAN_H_
