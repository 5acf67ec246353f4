// Options, a struct for each kind of call. Set fields by name; a default means what the field's absence meant before it
// existed, so that new ones break no caller:
//
//     client->Put(key, value, {.condition = farlook::Condition::IfAbsent(), .timeout_ms = 20});
//
// In all of them `timeout_ms` is the time that the call may take, from its beginning to its end; 0: the client's.
#ifndef FARLOOK_OPTIONS_H_
#define FARLOOK_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <string>

namespace farlook {

// How a get finds its value.
enum class Lookups : uint8_t {
  kAuto,      // kMessages over tcp://, where a READ takes the server's CPU too; else kReads
  kReads,     // with READs: no instruction of the server
  kMessages,  // the server is asked, and looks it up: one round trip, at the cost of its CPU; gets then need it to run.
              // The client READs only values that do not fit in a reply (4 KiB), or are empty, where the reply says.
              // For measuring what READs are worth, and for networks where a message costs less than they do
};

// Of servers in a group: what a get must have seen of its members before it is believed, so that the primary it READ is
// not one that has a successor.
enum class Fencing : uint8_t {
  kLease,   // as a rule nothing of its own: all were looked at less than a lease ago, by the client's clock
  kStrict,  // all of them after the get READ its value: a round trip more, and no clock counts. For clients that may
            // stand still without their clock (virtual machines that are stopped). On this host always so
};

// Of Client::Connect.
struct ClientOptions {
  int64_t timeout_ms = 1000;  // of Connect, and of each call whose options give none
  bool read_only = false;     // asks for no right to write
  // With read_only: it comes to ask what admin.h has. A server that is full lets in two such clients of its host beyond
  // --max_clients: of root, of the server's own user or, where it has --users, of those with the role admin.
  bool as_operator = false;
  Lookups lookups = Lookups::kAuto;
  Fencing fencing = Fencing::kLease;
  uint32_t max_in_flight = 256;  // operations that run at once; more wait in the client. The server may grant fewer
                                 // writes at once
  // Bound of the memory for the index mirror, images of the index that tell where keys lie, also such as nobody here
  // asked for: some 16 bytes a key of the table, touched as it fills. 0: none; -1: 256 MiB where it is shared, else 16
  // MiB. Over shm:// there is none: the index itself is mapped. Of a cluster: for each group.
  int64_t mirror_bytes = -1;
  // One mirror for all clients of this user on this host that say so, and say the same mirror_bytes.
  bool share_mirror = true;
  int64_t counter_cache_bytes = 16 << 20;  // bound of the memory for the cells of counters, 32 bytes each; taken from
                                           // the first counter on, touched as it fills. 0: every operation on a
                                           // counter is a message
  int64_t min_backoff_ms = 1;              // between attempts to reconnect: doubles, with jitter, up to max_backoff_ms
  int64_t max_backoff_ms = 200;
  int64_t spin_us = 50;             // a waiting call polls this long before it sleeps
  int64_t liveness_ms = 3000;       // in which a server that is silently gone is noticed (rdma, tcp)
  uint32_t max_outstanding = 1024;  // READs with the devices at once, of all clients of the process (rdma)
  // What to do where no server answers yet, or it is shutting down or full: go on trying until the time of Connect, or
  // of the operation, is over. False: fail at once, with UNAVAILABLE or RESOURCE_EXHAUSTED.
  bool wait_for_server = false;
  // Who the client is, for a server that asks (kv_server --users). Over rdma:// and tcp:// both prove to each other
  // that they know the secret, and a client that has one refuses a server that does not; over shm:// the kernel tells
  // the server who it is, and these are of no use. Empty: the environment's FARLOOK_USER, and FARLOOK_SECRET_FILE or
  // FARLOOK_SECRET.
  std::string user = {};         // all have a value, so that who names only some fields is not warned of them
  std::string secret = {};       // or
  std::string secret_file = {};  // whose first line it is, and which only its owner may read
};

// Of Client::Warm, which READs all of the index into the mirror, or as much as that holds: some 16 bytes a key over the
// network, and nothing of the server's CPU. Over shm:// it does nothing. FAILED_PRECONDITION: the client has no mirror
// (mirror_bytes), or its gets go by messages (lookups). DEADLINE_EXCEEDED: what was READ by then stays.
struct WarmOptions {
  int64_t timeout_ms = 0;
};

// When a write takes effect.
class Condition {
 public:
  enum class Kind : uint8_t { kAlways, kIfAbsent, kIfPresent, kIfVersion };

  constexpr Condition() = default;
  static constexpr Condition Always() { return Condition(); }
  static constexpr Condition IfAbsent() { return Condition(Kind::kIfAbsent, 0); }
  static constexpr Condition IfPresent() { return Condition(Kind::kIfPresent, 0); }
  // Only if the key's version is `version`, from a get or from a write.
  static constexpr Condition IfVersion(uint64_t version) { return Condition(Kind::kIfVersion, version); }

  constexpr Kind kind() const { return kind_; }
  constexpr uint64_t version() const { return version_; }  // 0 unless IfVersion

 private:
  constexpr Condition(Kind kind, uint64_t version) : version_(version), kind_(kind) {}

  uint64_t version_ = 0;
  Kind kind_ = Kind::kAlways;
};

// How long an item lives, from when the write takes effect: 1 ms to ten years. Milliseconds of the server's clock,
// which is the only one that counts; a client that cannot tell whether an item has expired asks.
inline constexpr int64_t kMaxTtlMs = int64_t{10} * 366 * 24 * 3600 * 1000;
// What Client::Ttl says of an item that never expires.
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// Of Get, GetInto, Exists and Ttl; of MultiGet, for each key.
struct GetOptions {
  int64_t timeout_ms = 0;
};

// Of Put; of MultiPut, for each key.
struct PutOptions {
  Condition condition = Condition::Always();
  int64_t timeout_ms = 0;
  int64_t ttl_ms = 0;     // after which the key is absent; 0: never
  bool keep_ttl = false;  // it expires when the item there would have; a key that is absent never. Not with ttl_ms
  // Of a server that is a cache (--evict); others take no notice.
  bool keep = false;    // the item is never evicted, but by a put that does not say so
  bool refill = false;  // the key was looked for, and not found: if it had been evicted lately, it is kept longer
};

// Of Touch, Persist and GetAndTouch; of MultiTouch, for each key.
struct TouchOptions {
  int64_t timeout_ms = 0;
};

// Of Delete; of MultiDelete, for each key.
struct DeleteOptions {
  Condition condition =
      Condition::Always();  // Always, IfPresent or IfVersion; a key that is absent is NOT_FOUND in any case
  int64_t timeout_ms = 0;
};

// Of what is done to counters; of a batch of them, for each.
struct CounterOptions {
  // The change is a message with a number, which the server carries out once however often it has to be sent: a
  // connection that breaks is no reason for UNKNOWN, as long as the server and this client's session live. Costs the
  // server's CPU.
  bool exactly_once = false;
  int64_t timeout_ms = 0;
  // Of CreateCounter: the counter is deleted so long after, or up to some seconds later, and lives until then. 0:
  // never.
  int64_t ttl_ms = 0;
};

// Of Ping and ServerStats, and what admin.h has.
struct ServerOptions {
  int64_t timeout_ms = 0;
  // Of a cluster: which group is asked. NOT_FOUND: there is none of that name. Empty: the one that Connect reached;
  // Ping asks all.
  std::string group = {};
};

}  // namespace farlook

#endif  // FARLOOK_OPTIONS_H_
