// The record of a group in the directory: who is a member, and since which epoch.
//
//      0 "flkgroup" | 8 fields (kv/fields.h)
//
// The fields: 1 group u64, 2 epoch u64, 3 lease us u32, 4 hash seed u64, 5 layout u32 (table_layout.h), 6 replicas u32,
// 7 least in sync u32, 8 name of the cluster, 9 slots, as pairs {first u16, last u16}, both included, 10 u8, 1: the
// primary has left; 64 + i: replica i, itself a sequence of fields: 1 incarnation u64, 2 kind u8, 3 address; 128 + i:
// move i of slots, likewise: 1 id u64, 2 kind u8, 3 the other group's name, 4 its slots, as field 9. Numbers are
// little-endian. All are critical, as who does not know one would take wrong decisions; what may be ignored gets a tag
// without that bit.
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
#include "kv/cluster_map.h"
#include "kv/limits.h"

namespace farlook::cluster {

inline constexpr size_t kMaxReplicas = 16;
inline constexpr size_t kMaxAddressBytes = 256;
inline constexpr size_t kMaxMoves = 64;
// Readers READ words three times as often; longer ones make a failover slow without sparing much.
inline constexpr uint32_t kMinLeaseUs = 1'000, kMaxLeaseUs = kv::kMaxLeaseUs;

struct Replica {
  enum class Kind : uint8_t { kBackup = 1, kPrimary = 2 };

  uint64_t incarnation = 0;  // random, drawn by the process when it begins; never 0
  Kind kind = Kind::kBackup;
  std::string address = {};  // "rdma://host:port", as clients connect to it

  bool operator==(const Replica&) const = default;
};

// Slots that one group takes from another. Each step is one change of one group's record ("Slots that move" in
// docs/cluster.md), so nobody needs to change two at once:
//
//     taker: kTaking -> giver: kGiven, and the slots are its own no more -> taker: kTaken, and they are its own
//            -> giver: forgets the move -> taker: forgets it
//
// A giver that sees the taker without the move has its slots back: the taker gave it up before.
struct Move {
  enum class Kind : uint8_t {
    kTaking = 1,  // at the taker: it copies their items
    kTaken = 2,   // likewise: the slots were its own from then on; the record names them no more
    kGiven = 3,   // at the giver: the taker alone may have them from now on
  };

  uint64_t id = 0;  // random, drawn by the taker; never 0
  Kind kind = Kind::kTaking;
  std::string group = {};  // the other one
  kv::SlotSet slots = {};  // but of kTaken

  bool operator==(const Move&) const = default;
};

struct Configuration {
  uint64_t group = 0;  // random: tells two groups apart that have one name
  uint64_t epoch = 0;
  uint32_t lease_us = 150'000;  // D
  uint64_t hash_seed = 0;
  TableLayout layout = {};       // of the tables of all who are members
  uint32_t replicas = 2;         // as many members as there should be; more servers are spares
  uint32_t min_insync = 1;       // with fewer members no write is acknowledged
  std::string cluster = {};      // of which the group is one, for ever; empty: of none
  kv::SlotSet slots = {};        // of the cluster, that are this group's
  std::vector<Replica> members;  // one of them is the primary, all are in sync
  // The primary's process has ended in order, and nobody can READ its memory any more. Said in an epoch of its own.
  bool primary_left = false;
  std::vector<Move> moves = {};  // of slots, that are under way; at most kMaxMoves

  const Replica* Find(uint64_t incarnation) const;
  const Move* FindMove(uint64_t id) const;  // null: there is none
  const Replica& primary() const;           // REQUIRES Check().ok()
  // INVALID_ARGUMENT, and what is wrong with it: no or two primaries, one member twice, ...
  absl::Status Check() const;
  bool operator==(const Configuration&) const = default;
};

// Tells what is made now apart from all that was ever made; never 0.
uint64_t RandomId();

// REQUIRES configuration.Check().ok().
std::string EncodeConfiguration(const Configuration& configuration);

// Of untrusted bytes; what it returns is Check()ed. FAILED_PRECONDITION: of a later version of Farlook.
absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes);

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_CONFIGURATION_H_
