// The parameters of one simulated run: everything that is drawn from its seed before it begins.
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

// The places of faults. Each is switched on in half of the runs, independently, and has a separate rate. First those of
// the network, in the order of rdma::sim::SiteOf().
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
  kUnusedMemory,  // servers allocate no buffers; in runs with large values they have too little memory for values
  kSlowAcksToClients,
  kSlowAcksToServers,
  kSlowAtomics,
  kUnusedAtomics,  // servers do none
  kShortSendQueues,
  kShortReceivesAtClients,
  kShortReceivesAtServers,
  // Faults of the parties.
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
  kHostileClients,  // which break the protocol
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

// Longer than any event of a run delays a client.
inline constexpr int64_t kLongPatienceNs = 5'000'000'000;

// Length of the values that lie in sparse blocks, in runs with moves.
inline constexpr uint32_t kSparseBytes = 3'700;

// Number of turns of a run that fills memory: fill, overwrite, delete, and fill again with values of other lengths.
inline constexpr int kFillingTurns = 9;

// Lengths of the values that are put in such a turn.
struct LengthRange {
  uint32_t least, most;
  uint32_t average() const { return (least + most) / 2; }
};
constexpr LengthRange FillingBytes(uint64_t seed, int turn) {
  constexpr LengthRange kRanges[] = {{20, 9'000}, {60'000, 130'000}, {8'000, 60'000}, {30'000, 90'000}};
  return kRanges[(seed + static_cast<uint64_t>(turn / 3)) % 4];
}

// Returns whether servers that evict keep a key: its items are put with `keep`.
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
  bool memory_leaves = false;  // of the index, as soon as it is unused there
  bool shrinks = false;        // after they grew, keys become few
  bool grows = false;          // keys fill few buckets, so that they overflow and split
  bool large_values = false;   // that fill the server's memory
  bool long_values = false;    // some longer than a page of the server's memory
  bool expires = false;        // puts have a ttl, and are touched
  bool evicts = false;         // servers are caches; every fourth key is kept
  bool moves = false;          // items move, since memory is full and its blocks sparse
  bool fills = false;          // puts of new keys fill memory, overwrites and deletes follow, and again
  int values = 0;              // what lengths they have
  int in_flight = 0;           // of one client
  int64_t timeout_ms = 0;
  int64_t mirror_bytes = 0;
  uint32_t window = 0;
  uint32_t nested = 0;       // chance of going on elsewhere between two stores, per million
  uint32_t nested_near = 0;  // the same, after a store to what was READ recently
  int64_t store_ns = 0;      // that a store takes
  uint32_t pauses = 0;       // chance of quiet after an operation, per million
  bool counters = false;     // some keys name counters, some now this and now that
  bool cells_shared = true;  // clients change counters' cells themselves; otherwise by message
  bool sockets = false;      // as over tcp://: servers serve READs, do no atomics, and are asked for most values
  int cells = 0;             // of all counters of a server
  int calls = 0;             // per cent of operations begun by calls that wait, and so READ at once if possible
  int64_t patience_ns = 0;   // for the acknowledgement that counters were deleted
  rdma::sim::NetworkOptions network;

  // Rate of each enabled fault: per million for the network, otherwise approximately per run.
  std::array<uint32_t, kFaults> rates{};

  // Number of replicas in each group; 0: each server has a separate table.
  int replicas = 0;
  int groups = 1;  // if there are several: of one cluster, whose slots move
  int64_t suspicion_ms = 0, lease_ms = 0;
  uint32_t directory_faults = 0;  // of its calls, per million
  bool slow_directory = false;    // its calls take time, in which other processes continue
  bool hands_over = false;        // an operator does, about `handovers` times in a run; servers do not die then
  uint64_t handovers = 8;
  uint64_t slot_moves = 40;  // approximate number of moves in a run with several groups; some are cancelled

  // Number of separate tables, each with its histories.
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

// Kinds of runs. In runs of one kind, events that are rare among all runs are frequent.
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
  kGroupItems,  // groups, sometimes two, whose items are many, or large, or move, or expire, or are counters
  kSlowSlots,   // as kSlots, and a call of the directory may take longer than a lease lasts, or a failover
  kBusySlots,   // slots that move while clients have many writes of few keys under way, in connections that break
  kReadsAtOnce,  // blocking calls for one get that poll for its READ; connections break, and servers die
  kSleepers,     // more operations in flight than there are receives, by clients that look once after each wake-up
  kFullGroups,   // groups that are filled to the end, overwritten, emptied and filled again; members of unequal room
};
inline constexpr int kFoci = static_cast<int>(Focus::kFullGroups) + 1;
Plan DrawPlan(uint64_t seed, Focus focus);

// Changes a plan into one of this kind.
void FocusOn(Focus focus, Plan* plan);
// Changes a plan into one over tcp://.
void TakeSockets(Plan* plan);

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_PLAN_H_
