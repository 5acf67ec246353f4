// How client and server come to know each other. All integers are little-endian; docs/protocol.md draws every byte.
//
//     with the connection (private data of the connection manager)      ConnectData ->   <- AcceptData, or RejectData
//     then the first messages                                           Hello ->         <- Welcome, or Refusal
//     where the server asks who the client is, between those two                         <- Challenge
//                                                                       Proof ->
//     then requests and replies (message.h)
//
// The first pair is what it takes to connect: which versions are spoken, to which of the server's workers the client
// must go, and, where nobody asks who the client is, what it needs to READ. Private data is short; all else stands in
// the messages, which consist of fields (fields.h) and so can grow.
//
// Every decoder takes untrusted bytes. INVALID_ARGUMENT: not ours, or malformed. FAILED_PRECONDITION: of a version, or
// with a demand, that this release does not know. The message of either can be the text of a refusal.
#ifndef FARLOOK_KV_HANDSHAKE_H_
#define FARLOOK_KV_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/cluster_map.h"
#include "kv/limits.h"

namespace farlook::kv {

inline constexpr uint32_t kConnectMagic = 0x4b4c5246;  // "FRLK"
inline constexpr uint8_t kMinVersion = 2;
inline constexpr uint8_t kMaxVersion = 2;

// Flags of ConnectData, AcceptData and Hello: who does not know one of these ignores it, or refuses.
inline constexpr uint32_t kIgnorableFlags = 0x0000'ffff;
inline constexpr uint32_t kCriticalFlags = 0xffff'0000;

// Client to server, with the connection request.
//      0 magic u32 | 4 bytes u16, this message's own length | 6 min version u8 | 7 max version u8 | 8 flags u32
//     12 zero u32 | 16 session u64
struct ConnectData {
  static constexpr size_t kBytes = 24;
  // As in the Hello, and said here too, since the accept grants keys: a read-only client gets none to counters' cells.
  enum Flags : uint32_t {
    kReadOnly = 1,
    // With kReadOnly: it comes to ask what operators ask (RequestType::kAdmin), for whom a full server keeps places.
    kOperator = 2,
    // Only to READ a member's epoch word (region.h), or to follow it (Follow): who does not serve lets these in too.
    kWatch = 1u << 16,
  };

  uint8_t min_version = kMinVersion;
  uint8_t max_version = kMaxVersion;
  uint32_t flags = 0;
  uint64_t session = 0;  // that the client means to resume, so that the acceptor finds its worker; 0: none

  std::string Encode() const;
  // FAILED_PRECONDITION also where no version is common to both sides.
  static absl::StatusOr<ConnectData> Decode(absl::string_view bytes);
  // The latest version that both sides speak. REQUIRES that Decode() gave this.
  uint8_t version() const { return max_version < kMaxVersion ? max_version : kMaxVersion; }
};

// A range of the server's memory as the client's transport names it.
struct ServerRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
};

// Server to client, with the accept.
//      0 magic u32 | 4 bytes u16 | 6 version u8 | 7 zero u8 | 8 flags u32 | 12 table rkey u32 | 16 incarnation u64
//     24 table address u64 | 32 table bytes u64
struct AcceptData {
  static constexpr size_t kBytes = 40;
  enum Flags : uint32_t {
    kGroup = 1,  // of a group (docs/cluster.md): sessions and versions go on in its next primary, another incarnation
    kAuthentication = 1u << 16,  // the table is told when the client has proved who it is (Welcome); here it is zeros
  };

  uint8_t version = kMaxVersion;
  uint32_t flags = 0;
  uint64_t incarnation = 0;  // of the table
  ServerRange table;         // may be read as soon as the connection is there, unless kAuthentication

  std::string Encode() const;
  static absl::StatusOr<AcceptData> Decode(absl::string_view bytes);
};

// Why a client is turned away. In parentheses the absl code that a client reports.
enum class RefusalCode : uint8_t {
  kShuttingDown = 1,      // (UNAVAILABLE) worth trying again
  kFull = 2,              // (RESOURCE_EXHAUSTED) at --max_clients; worth trying again
  kNotAllowed = 3,        // (PERMISSION_DENIED)
  kUnknownName = 4,       // (FAILED_PRECONDITION) of a table; not NOT_FOUND, which is said of keys
  kVersion = 5,           // (FAILED_PRECONDITION) the sides are of releases that do not understand each other
  kMalformed = 6,         // (FAILED_PRECONDITION)
  kNotAuthenticated = 7,  // (UNAUTHENTICATED) the client did not prove who it is
  kNotPrimary = 8,        // (UNAVAILABLE) a backup; the text is the primary's address, or empty; try there, and again
  kGroupLost = 9,         // (DATA_LOSS) all members of the group are gone, and nobody has said that it may begin anew
};

// Whether the same may be welcome later.
constexpr bool WorthTryingAgain(RefusalCode code) {
  return code == RefusalCode::kShuttingDown || code == RefusalCode::kFull || code == RefusalCode::kNotPrimary;
}
// What a client reports. A code of a later release: FAILED_PRECONDITION.
absl::Status RefusalStatus(RefusalCode code, absl::string_view text);
// How to refuse what a decoder found wrong. REQUIRES !status.ok().
RefusalCode RefusalFor(const absl::Status& status);

// Server to client, with a reject.
//      0 magic u32 | 4 code u8 | 5 min version u8 | 6 max version u8 | 7 zero u8 | 8 text
struct RejectData {
  static constexpr size_t kHeaderBytes = 8;

  RefusalCode code = RefusalCode::kMalformed;
  uint8_t min_version = kMinVersion;  // that the server speaks
  uint8_t max_version = kMaxVersion;
  std::string text;

  // At most `most` bytes: the text is cut.
  std::string Encode(size_t most) const;
  static absl::StatusOr<RejectData> Decode(absl::string_view bytes);
};

// What each first message begins with, and no request, reply or notice does.
//      0 type u8 | 1 version u8 | 2 zero u16 | 4 bytes u32, of the whole message | 8 fields
enum class FirstMessage : uint8_t {
  kHello = 0x90,
  kWelcome = 0x91,
  kRefusal = 0x92,
  kChallenge = 0x93,
  kProof = 0x94,
  kFollow = 0x95
};
inline constexpr size_t kFirstMessageHeadBytes = 8;

// Whether `message` says that it is of this type.
inline bool IsFirstMessage(absl::string_view message, FirstMessage type) {
  return !message.empty() && static_cast<uint8_t>(message[0]) == static_cast<uint8_t>(type);
}

// What nobody can have said before, from kernel randomness; and what only who knows the secret can say (proof.h).
using Nonce = std::array<uint8_t, 32>;
using Mac = std::array<uint8_t, 32>;

inline constexpr size_t kMaxUserBytes = 64;

// Client to server.
struct Hello {
  enum Flags : uint32_t { kReadOnly = 1 };
  // Fields. Kept free: 5 proof, 6 name of the table, 7 map revision, 8 whether expiry is wanted.
  enum Tag : uint16_t {
    kClient = 1,   // flags u32
    kSession = 2,  // id u64 | incarnation u64 | acknowledged u64 | epoch u32; absent: a new one
    kUser = 3,     // at most kMaxUserBytes
    kNonce = 4,    // 32 bytes
  };

  uint8_t version = kMaxVersion;
  uint32_t flags = 0;
  uint64_t session = 0;       // to resume, or 0 for a new one
  uint64_t incarnation = 0;   // that the session belongs to
  uint64_t acknowledged = 0;  // every request up to this number has its answer
  uint32_t epoch = 0;         // of the session as the client knows it
  std::string user;           // who it is, where the server asks
  Nonce nonce = {};           // likewise; zeros: none

  std::string Encode() const;
  static absl::StatusOr<Hello> Decode(absl::string_view bytes);
};

// Server to client.
struct Welcome {
  enum Flags : uint32_t { kResumed = 1, kReadOnly = 2 };
  // Fields. Kept free: 6 table.
  enum Tag : uint16_t {
    kSession = 1,   // id u64 | epoch u32 | flags u32
    kLimits = 2,    // longest value u64 | window u32
    kCounters = 3,  // address u64 | bytes u64 | rkey u32 | atomics u32; absent: none
    kClock = 4,     // u64
    kGrant = 5,    // address u64 | bytes u64 | rkey u32 | zero u32 | proof, 32 bytes; absent: the accept told the table
    kCluster = 7,  // its name; absent: the group is in none
    kMembers = 8,  // addresses of a group's members, separated by commas; absent: there is no group
    kFigures = 9,  // u32; absent: the client is not to tell its figures
    kSample = 10,  // u32: of a cache; absent: the client is to tell nothing
    kGets = 11,    // u32; absent: the client is to ask for one key in a message
    kGroup = 12,   // epoch u64 | lease in microseconds u32 | zero u32; absent: there is no group
    kPuts = 13,    // u32; absent: the client is to put one key in a message
    kSlots = 14,   // 64 u64, a bit for each slot that the group has in kGroup's epoch; absent: it has none, or there
                   // is no cluster
  };

  uint8_t version = kMaxVersion;
  uint64_t session = 0;
  uint32_t epoch = 0;  // grows at each resumption
  uint32_t flags = 0;
  uint64_t max_value_bytes = 0;
  uint32_t window = 0;       // W: requests that may be without an answer at once
  ServerRange counters;      // rkey 0: none
  uint32_t atomics = 0;      // that the client may have in flight there, from 1 on where there is a key
  uint64_t time_us = 0;      // of the server's clock, when it wrote this: from 1 on
  ServerRange table;         // rkey 0: the accept told it
  Mac proof = {};            // the server's, with the table
  uint32_t figures_ms = 0;   // between two messages of the client's figures (client_figures.h); 0: none are wanted
  uint32_t sample = 0;       // one hit in so many is to be told (touched.h); 0: none
  uint32_t gets = 0;         // so many keys a kGets may have (gets.h); 0: none is understood
  uint32_t puts = 0;         // so many puts a kPuts may have (puts.h); 0: none is understood
  std::string members;       // of the group, the primary first
  std::string cluster;       // of which the group is one (cluster_map.h); empty: of none
  uint64_t group_epoch = 0;  // that the members' words show (epoch_word.h), from 1 on; 0: there is no group
  uint32_t lease_us = 0;     // of the group (read_lease.h), from 1 on
  SlotWords slots = {};      // of the cluster, that are the group's in group_epoch

  std::string Encode() const;
  static absl::StatusOr<Welcome> Decode(absl::string_view bytes);
};

// Server to client, where it asks who the client is: the Hello's answer.
struct Challenge {
  enum Tag : uint16_t {
    kNonce = 1,  // 32 bytes
  };

  uint8_t version = kMaxVersion;
  Nonce nonce = {};

  std::string Encode() const;
  static absl::StatusOr<Challenge> Decode(absl::string_view bytes);
};

// Client to server: the Challenge's answer.
struct Proof {
  enum Tag : uint16_t {
    kMac = 1,  // 32 bytes
  };

  uint8_t version = kMaxVersion;
  Mac mac = {};

  std::string Encode() const;
  static absl::StatusOr<Proof> Decode(absl::string_view bytes);
};

// A backup of a group to its primary, in the place of a Hello; and the primary's answer, which is the same. Acceptances
// and batches follow (server/feed.h).
struct Follow {
  enum Tag : uint16_t {
    kReplica = 1,  // incarnation u64 | epoch u64 | accepted u64
    kJoins = 2,    // its address; absent: it is a member, or was filled from here before
    kTakes = 3,    // move u64 | items u64; absent: it follows to be a backup
    kTaker = 4,    // name; likewise
  };

  uint8_t version = kMaxVersion;
  uint64_t incarnation = 0;  // of the backup; never 0
  uint64_t epoch = 0;        // that it knows
  uint64_t accepted = 0;     // it has all records up to this one; in the answer to one that joins: as if it had them
  std::string address = {};  // of one that joins, as clients come to it: it has nothing, and is to be filled
  uint64_t move = 0;         // of another group's primary, which joins to take slots: which of its record's moves it is
  std::string taker = {};    // and its group's name
  uint64_t items = 0;        // in the answer to that: how many items the slots have, about

  std::string Encode() const;
  static absl::StatusOr<Follow> Decode(absl::string_view bytes);
};

// Server to client: no Welcome. The connection ends.
struct Refusal {
  enum Tag : uint16_t {
    kCode = 1,   // u8
    kText = 2,   // for people
    kRetry = 3,  // milliseconds u32
  };

  uint8_t version = kMaxVersion;
  RefusalCode code = RefusalCode::kMalformed;
  std::string text;
  uint32_t retry_after_ms = 0;  // 0: the server has no opinion

  std::string Encode() const;
  static absl::StatusOr<Refusal> Decode(absl::string_view bytes);
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_HANDSHAKE_H_
