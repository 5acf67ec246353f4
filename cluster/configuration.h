// The record of a group in the directory: its members, and their epoch.
//
//      0 "flkgroup" | 8 fields (kv/wire/fields.h)
//
// The fields, by tag. Numbers are little-endian.
//
//      1 group u64 | 2 epoch u64 | 3 lease us u32 | 4 hash seed u64 | 5 layout u32 (table_layout.h) | 6 replicas u32
//      7 least in sync u32 | 8 name of the cluster | 9 slots, as pairs {first u16, last u16}, both included
//     10 u8, 1: the primary has left | 11 longest value u64, memory u64 (Limits); absent: unknown
//     12 history u64; absent: 0
//     64 + i: replica i, itself a sequence of fields: 1 incarnation u64 | 2 kind u8 | 3 address
//    128 + i: move i of slots, likewise: 1 id u64 | 2 kind u8 | 3 the other group's name | 4 its slots, as field 9
//
// All fields are critical, as a server that does not know one would take wrong decisions. A field that may be ignored
// gets a tag without that bit.
#ifndef FARLOOK_CLUSTER_CONFIGURATION_H_
#define FARLOOK_CLUSTER_CONFIGURATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/table_layout.h"
#include "kv/layout/limits.h"
#include "kv/wire/cluster_map.h"

namespace farlook::cluster {

inline constexpr size_t kMaxReplicas = 16;
inline constexpr size_t kMaxAddressBytes = 256;
inline constexpr size_t kMaxMoves = 64;
// Readers READ words three times during each lease; longer leases make a failover slow and save little.
inline constexpr uint32_t kMinLeaseUs = 1'000, kMaxLeaseUs = kv::kMaxLeaseUs;

struct Replica {
  enum class Kind : uint8_t { kBackup = 1, kPrimary = 2 };

  uint64_t incarnation = 0;  // random, drawn by the process when it starts; never 0
  Kind kind = Kind::kBackup;
  std::string address = {};  // "rdma://host:port", as clients connect to it

  bool operator==(const Replica&) const = default;
};

// Slots that one group takes from another. Each step is one change of one group's record ("Slots that move" in
// docs/cluster-design.md), so no step changes two records at once:
//
//     taker: kTaking -> giver: kGiven, and it loses the slots -> taker: kTaken, and it owns them
//            -> giver: forgets the move -> taker: forgets it
//
// If the giver sees that the taker's record lacks the move, the giver takes its slots back: the taker gave the move up
// before.
struct Move {
  enum class Kind : uint8_t {
    kTaking = 1,  // at the taker: it copies their items
    kTaken = 2,   // at the taker: from then on it owns the slots, and the move no longer names them
    kGiven = 3,   // at the giver: from now on only the taker may own them
  };

  uint64_t id = 0;  // random, drawn by the taker; never 0
  Kind kind = Kind::kTaking;
  std::string group = {};  // the other group
  kv::SlotSet slots = {};  // empty for kTaken

  bool operator==(const Move&) const = default;
};

// The limits that each member's table must have, as chosen by the server that began the group. 0: unknown.
struct Limits {
  uint64_t max_value_bytes = 0;  // equal at all members
  uint64_t memory_bytes = 0;     // of each member at least

  bool operator==(const Limits&) const = default;
};

struct Configuration {
  uint64_t group = 0;  // random: distinguishes two groups with the same name
  uint64_t epoch = 0;
  uint32_t lease_us = 150'000;  // D
  uint64_t hash_seed = 0;
  TableLayout layout = {};       // of the tables of all members
  uint32_t replicas = 2;         // wanted number of members; more servers are spares
  uint32_t min_insync = 1;       // with fewer members no write is acknowledged
  std::string cluster = {};      // that the group belongs to, for ever; empty: none
  kv::SlotSet slots = {};        // of the cluster, owned by this group
  std::vector<Replica> members;  // one of them is the primary, all are in sync
  // The primary's process has ended in order, and its memory can no longer be READ. Set in a separate epoch.
  bool primary_left = false;
  Limits limits = {};
  // The epoch in which the table began empty: 1, or the one in which an operator began the group again. Changes of
  // members, and of the primary, leave it as it is. 0: not known.
  uint64_t history = 0;
  std::vector<Move> moves = {};  // of slots, in progress; at most kMaxMoves

  const Replica* Find(uint64_t incarnation) const;
  const Move* FindMove(uint64_t id) const;  // null: there is none
  const Replica& primary() const;           // REQUIRES Check().ok()
  // INVALID_ARGUMENT names the problem: no or two primaries, one member twice, ...
  absl::Status Check() const;
  bool operator==(const Configuration&) const = default;
};

// Returns a random id, unique in practice; never 0.
uint64_t RandomId();

// REQUIRES configuration.Check().ok().
std::string EncodeConfiguration(const Configuration& configuration);

// Decodes untrusted bytes; the result is Check()ed. FAILED_PRECONDITION: of a later version of Farlook.
absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_CONFIGURATION_H_
