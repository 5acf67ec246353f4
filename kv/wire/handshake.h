// The handshake of client and server. All integers are little-endian; docs/protocol.md shows every byte.
//
//     with the connection (private data of the connection manager)      ConnectData ->   <- AcceptData, or RejectData
//     then the first messages                                           Hello ->         <- Welcome, or Refusal
//     with authentication, between those two                                             <- Challenge
//                                                                       Proof ->
//     then requests and replies (message.h)
//
// The first pair is the minimum for a connection: the versions spoken, the server's worker that the client must reach
// and, without authentication, what the client needs to READ. Private data is short. Everything else is in the
// messages, which consist of fields (fields.h) and so can be extended.
//
// Every decoder takes untrusted bytes. INVALID_ARGUMENT: not a message of this protocol, or malformed.
// FAILED_PRECONDITION: a version, or a requirement, that this release does not know. The status message of either can
// be the text of a refusal.
#ifndef FARLOOK_KV_WIRE_HANDSHAKE_H_
#define FARLOOK_KV_WIRE_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/wire/cluster_map.h"

namespace farlook::kv {

inline constexpr uint32_t kConnectMagic = 0x4b4c5246;  // "FRLK"
inline constexpr uint8_t kMinVersion = 2;
inline constexpr uint8_t kMaxVersion = 2;

// Flags of ConnectData, AcceptData and Hello: a receiver ignores an unknown ignorable flag and refuses an unknown
// critical one.
inline constexpr uint32_t kIgnorableFlags = 0x0000'ffff;
inline constexpr uint32_t kCriticalFlags = 0xffff'0000;

// Client to server, with the connection request.
//      0 magic u32 | 4 bytes u16, this message's own length | 6 min version u8 | 7 max version u8 | 8 flags u32
//     12 zero u32 | 16 session u64
struct ConnectData {
  static constexpr size_t kBytes = 24;
  // Also in the Hello. Repeated here, since the accept grants keys: a read-only client gets no key to the counters'
  // cells.
  enum Flags : uint32_t {
    kReadOnly = 1,
    // With kReadOnly: for operators' requests (RequestType::kAdmin), or to probe whether the server answers. A full
    // server reserves places for both.
    kOperator = 2,
    // Only to READ a member's epoch word (region.h), or to follow the member (Follow). A server that does not serve
    // clients also accepts these.
    kWatch = 1u << 16,
  };

  uint8_t min_version = kMinVersion;
  uint8_t max_version = kMaxVersion;
  uint32_t flags = 0;
  uint64_t session = 0;  // the session to resume, so that the acceptor finds its worker; 0: none

  std::string Encode() const;
  // FAILED_PRECONDITION also if both sides have no version in common.
  static absl::StatusOr<ConnectData> Decode(absl::string_view bytes);
  // The latest version that both sides speak. REQUIRES that Decode() returned this.
  uint8_t version() const { return max_version < kMaxVersion ? max_version : kMaxVersion; }
};

// A range of the server's memory, as identified by the client's transport.
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
    kGroup = 1,  // of a group (docs/cluster-design.md): its next primary, another incarnation, continues sessions and
                 // versions
    kAuthentication = 1u << 16,  // the Welcome contains the table, after the client's proof; here it is zeros
  };

  uint8_t version = kMaxVersion;
  uint32_t flags = 0;
  uint64_t incarnation = 0;  // of the table
  ServerRange table;         // may be READ as soon as the connection is open, unless kAuthentication

  std::string Encode() const;
  static absl::StatusOr<AcceptData> Decode(absl::string_view bytes);
};

// The reason of a refusal. In parentheses the absl code that a client reports.
enum class RefusalCode : uint8_t {
  kShuttingDown = 1,      // (UNAVAILABLE) may be retried
  kFull = 2,              // (RESOURCE_EXHAUSTED) at --max_clients; may be retried
  kNotAllowed = 3,        // (PERMISSION_DENIED)
  kUnknownName = 4,       // (FAILED_PRECONDITION) of a table; not NOT_FOUND, which is reserved for keys
  kVersion = 5,           // (FAILED_PRECONDITION) the releases of both sides are incompatible
  kMalformed = 6,         // (FAILED_PRECONDITION)
  kNotAuthenticated = 7,  // (UNAUTHENTICATED) the client did not prove its identity
  kNotPrimary = 8,        // (UNAVAILABLE) a backup; the text is the primary's address, or empty; try there, and retry
  kGroupLost = 9,         // (DATA_LOSS) all members of the group are lost, and no operator has allowed a new beginning
};

// Returns whether a retry may succeed later.
constexpr bool WorthTryingAgain(RefusalCode code) {
  return code == RefusalCode::kShuttingDown || code == RefusalCode::kFull || code == RefusalCode::kNotPrimary;
}
// The status that a client reports. A code of a later release: FAILED_PRECONDITION.
absl::Status RefusalStatus(RefusalCode code, absl::string_view text);
// The refusal for a decoder's error. REQUIRES !status.ok().
RefusalCode RefusalFor(const absl::Status& status);

// Server to client, with a reject.
//      0 magic u32 | 4 code u8 | 5 min version u8 | 6 max version u8 | 7 zero u8 | 8 text
struct RejectData {
  static constexpr size_t kHeaderBytes = 8;

  RefusalCode code = RefusalCode::kMalformed;
  uint8_t min_version = kMinVersion;  // versions that the server speaks
  uint8_t max_version = kMaxVersion;
  std::string text;

  // At most `most` bytes: the text is truncated.
  std::string Encode(size_t most) const;
  static absl::StatusOr<RejectData> Decode(absl::string_view bytes);
};

// The first byte of each first message; no request, reply or notice begins with one of these.
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

// Returns whether the first byte of `message` is this type.
inline bool IsFirstMessage(absl::string_view message, FirstMessage type) {
  return !message.empty() && static_cast<uint8_t>(message[0]) == static_cast<uint8_t>(type);
}

// A nonce is unpredictable, from kernel randomness. A MAC can be computed only with knowledge of the secret (proof.h).
using Nonce = std::array<uint8_t, 32>;
using Mac = std::array<uint8_t, 32>;

inline constexpr size_t kMaxUserBytes = 64;

// Client to server.
struct Hello {
  enum Flags : uint32_t { kReadOnly = 1 };
  // Fields. Reserved: 5 proof, 6 name of the table, 7 map revision, 8 whether expiry is wanted.
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
  uint64_t acknowledged = 0;  // every request up to this number has its reply
  uint32_t epoch = 0;         // of the session, as known to the client
  std::string user;           // its name, if the server authenticates
  Nonce nonce = {};           // likewise; zeros: none

  std::string Encode() const;
  static absl::StatusOr<Hello> Decode(absl::string_view bytes);
};

// Server to client.
struct Welcome {
  enum Flags : uint32_t { kResumed = 1, kReadOnly = 2 };
  // Fields. Reserved: 6 table.
  enum Tag : uint16_t {
    kSession = 1,   // id u64 | epoch u32 | flags u32
    kLimits = 2,    // longest value u64 | window u32
    kCounters = 3,  // address u64 | bytes u64 | rkey u32 | atomics u32; absent: none
    kClock = 4,     // u64
    kGrant = 5,     // address u64 | bytes u64 | rkey u32 | zero u32 | proof, 32 bytes; absent: the accept contained the
                    // table
    kCluster = 7,   // its name; absent: the group is in none
    kMembers = 8,   // addresses of a group's members, separated by commas; absent: there is no group
    kFigures = 9,   // u32; absent: the client must not report figures
    kSample = 10,   // u32: of a cache; absent: the client must report nothing
    kGets = 11,     // u32; absent: only one key in a message
    kGroup = 12,    // epoch u64 | lease in microseconds u32 | zero u32; absent: there is no group
    kPuts = 13,     // u32; absent: only one key in a message
    kSlots = 14,  // 64 u64, a bit for each slot that the group has in kGroup's epoch; absent: it has none, or there is
                  // no cluster
    kHistory = 15,  // u64; absent: there is no group
  };

  uint8_t version = kMaxVersion;
  uint64_t session = 0;
  uint32_t epoch = 0;  // increased at each resumption
  uint32_t flags = 0;
  uint64_t max_value_bytes = 0;
  uint32_t window = 0;       // W: maximum number of requests without a reply at once
  ServerRange counters;      // rkey 0: none
  uint32_t atomics = 0;      // that the client may have in flight there; at least 1 if there is a key
  uint64_t time_us = 0;      // the server's clock when it wrote this; at least 1
  ServerRange table;         // rkey 0: the accept contained it
  Mac proof = {};            // the server's, with the table
  uint32_t figures_ms = 0;   // interval of the client's reports of figures (client_figures.h); 0: none are wanted
  uint32_t sample = 0;       // one hit in this many is reported (touched.h); 0: none
  uint32_t gets = 0;         // maximum number of keys in a kGets (gets.h); 0: not supported
  uint32_t puts = 0;         // maximum number of puts in a kPuts (puts.h); 0: not supported
  std::string members;       // of the group, the primary first
  std::string cluster;       // that the group belongs to (cluster_map.h); empty: none
  uint64_t group_epoch = 0;  // that the members' words show (epoch_word.h), at least 1; 0: there is no group
  uint32_t lease_us = 0;     // of the group (read_lease.h), at least 1
  SlotWords slots = {};      // of the cluster, that belong to the group in group_epoch
  uint64_t history = 0;  // of the group's table: another number is of a table that began empty; 0: there is no group

  std::string Encode() const;
  static absl::StatusOr<Welcome> Decode(absl::string_view bytes);
};

// Server to client: the answer to the Hello if the server authenticates clients.
struct Challenge {
  enum Tag : uint16_t {
    kNonce = 1,  // 32 bytes
  };

  uint8_t version = kMaxVersion;
  Nonce nonce = {};

  std::string Encode() const;
  static absl::StatusOr<Challenge> Decode(absl::string_view bytes);
};

// Client to server: the answer to the Challenge.
struct Proof {
  enum Tag : uint16_t {
    kMac = 1,  // 32 bytes
  };

  uint8_t version = kMaxVersion;
  Mac mac = {};

  std::string Encode() const;
  static absl::StatusOr<Proof> Decode(absl::string_view bytes);
};

// A backup of a group to its primary, instead of a Hello; and the primary's answer, in the same format.
// Acknowledgements of records and batches of records follow (server/replication/replication_feed.h).
struct Follow {
  enum Tag : uint16_t {
    kReplica = 1,  // incarnation u64 | epoch u64 | accepted u64
    kJoins = 2,    // its address; absent: it is a member, or was filled from here before
    kTakes = 3,    // move u64 | items u64; absent: it follows as a backup
    kTaker = 4,    // name; likewise
    kFit = 5,      // longest value u64 | memory u64 | digest of the users, 32 bytes; of a server that joins
  };

  uint8_t version = kMaxVersion;
  uint64_t incarnation = 0;  // of the backup; never 0
  uint64_t epoch = 0;        // the latest that it knows
  uint64_t accepted = 0;     // it has all records up to this one; in the answer to a joiner: it counts as having them
  std::string address = {};  // of a joiner, as used by clients: it has no data, and is to be filled
  uint64_t move = 0;         // sent by another group's primary, which joins to take slots: the number of the move in
                             // its record
  std::string taker = {};    // and its group's name
  uint64_t items = 0;        // in the answer to that: approximate number of items in the slots
  // The longest value and the memory of a joiner's table, and a digest of its users (server/session/users_digest.h;
  // zeros: every client is accepted). The primary refuses a joiner that could not take its place.
  uint64_t max_value_bytes = 0, memory_bytes = 0;
  Mac users = {};

  std::string Encode() const;
  static absl::StatusOr<Follow> Decode(absl::string_view bytes);
};

// Server to client: no Welcome. The connection ends.
struct Refusal {
  enum Tag : uint16_t {
    kCode = 1,   // u8
    kText = 2,   // for people
    kRetry = 3,  // milliseconds u32
    // To a follower of another epoch, from a primary: the group's record, as in the directory.
    kRevision = 4,  // u64
    kRecord = 5,    // at most kMaxRecordBytes
  };
  static constexpr size_t kMaxRecordBytes = kMaxMessageBytes / 2;

  uint8_t version = kMaxVersion;
  RefusalCode code = RefusalCode::kMalformed;
  std::string text;
  uint32_t retry_after_ms = 0;  // 0: no recommendation
  uint64_t revision = 0;        // of `record`; 0: there is none
  std::string record = {};

  std::string Encode() const;
  static absl::StatusOr<Refusal> Decode(absl::string_view bytes);
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_HANDSHAKE_H_
