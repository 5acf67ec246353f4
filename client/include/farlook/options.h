// Options, one struct for each kind of call. Set fields by name. The default of a new field means the behaviour before
// it existed, so new fields break no caller:
//
//     client->Put(key, value, {.condition = farlook::Condition::IfAbsent(), .timeout_ms = 20});
//
// In all of them `timeout_ms` is the maximum duration of the call; 0: the client's timeout. A negative value means that
// no time is left: the call ends with DEADLINE_EXCEEDED, unless it can be finished at once.
#ifndef FARLOOK_OPTIONS_H_
#define FARLOOK_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace farlook {

// The way in which a get finds its value.
enum class Lookups : uint8_t {
  kAuto,      // kMessages over tcp://, where a READ takes the server's CPU too; else kReads
  kReads,     // with READs: no instruction of the server
  kMessages,  // the server looks it up: one round trip and some of its CPU; gets then need the server to run. The
              // client READs only empty values and those too long for a reply (4 KiB), at the location in the reply.
              // For measuring what READs are worth, and for networks where a message costs less than READs
};

// Servers in a group: which members' epoch words a get must have seen before its result is believed. This proves that
// the primary it READ has no successor.
enum class Fencing : uint8_t {
  kLease,   // usually none of its own: all were seen less than a lease ago, by the client's clock
  kStrict,  // all, after the get READ its value: one round trip more, independent of clocks. For clients that may be
            // stopped together with their clock (paused virtual machines). On the server's host always so
};

// Maximum values of ClientOptions; a larger or negative one is INVALID_ARGUMENT. A timeout has no limit: one that is
// longer than the life of any process never expires.
inline constexpr int64_t kMaxBackoffMs = 3'600'000;
inline constexpr int64_t kMaxSpinUs = 3'600'000'000;
inline constexpr int64_t kMaxLivenessMs = 3'600'000;

// For Client::Connect.
struct ClientOptions {
  int64_t timeout_ms = 1000;  // of Connect, and of each call whose options give none; not negative
  bool read_only = false;     // requests no right to write
  // With read_only: the client uses admin.h, or probes the server. A full server admits two such clients of its host
  // beyond --max_clients. They must run as root or its own user or, with --users, have the role admin. It admits others
  // for a moment: two for each worker, and after 50 ms they make room for the next.
  bool as_operator = false;
  Lookups lookups = Lookups::kAuto;
  Fencing fencing = Fencing::kLease;
  uint32_t max_in_flight = 256;  // operations that run at once; more wait in the client. The server may grant fewer
                                 // writes at once
  // Bound of the memory for the index mirror: images of the index with the locations of keys, even of keys not used
  // yet. It takes some 16 bytes a key of the table, touched as it fills. 0: none; -1: 256 MiB if shared, else 16 MiB.
  // Over shm:// there is none, since the index itself is mapped. In a cluster: for each group.
  int64_t mirror_bytes = -1;
  // One mirror for all clients of this user on this host with this option and the same mirror_bytes.
  bool share_mirror = true;
  int64_t counter_cache_bytes = 16 << 20;  // bound of the memory for the cells of counters, 32 bytes each; allocated
                                           // with the first counter, touched as it fills. 0: every operation on a
                                           // counter is a message
  int64_t min_backoff_ms = 1;              // between attempts to reconnect: doubles, with jitter, up to max_backoff_ms
  int64_t max_backoff_ms = 200;
  int64_t spin_us = 50;             // a waiting call polls this long before it sleeps
  int64_t liveness_ms = 3000;       // in which a silently lost server is noticed (rdma, tcp)
  uint32_t max_outstanding = 1024;  // READs with the devices at once, of all clients of the process (rdma)
  // If no server answers yet, or it is shutting down or full: true means to try until the timeout of Connect, or of the
  // operation, has passed. False: fail at once, with UNAVAILABLE or RESOURCE_EXHAUSTED.
  bool wait_for_server = false;
  // The client's identity, for a server that asks (kv_server --users). Over rdma:// and tcp:// both sides prove that
  // they know the secret, and a client with a secret refuses a server that does not. Over shm:// the kernel identifies
  // the client, and these are not used. Empty: the environment's FARLOOK_USER, and FARLOOK_SECRET_FILE or
  // FARLOOK_SECRET.
  std::string user = {};         // initialized, to avoid warnings if only some fields are set
  std::string secret = {};       // or secret_file
  std::string secret_file = {};  // its first line is the secret; only its owner may read it
  // Called by calls that wait, Connect among them: after 10 ms, then after the number of milliseconds that it returned
  // last. A negative number ends the call at once, as if its time had passed; then it must return negative numbers
  // until the call returns. It must not use the client.
  std::function<int64_t()> while_waiting = {};
};

// For Client::Warm, which READs the index into the mirror, as far as it fits. This takes some 16 bytes a key over the
// network, and no CPU of the server. Over shm:// it does nothing. FAILED_PRECONDITION: the client has no mirror
// (mirror_bytes), or its gets use messages (lookups). DEADLINE_EXCEEDED: what was READ stays in the mirror.
struct WarmOptions {
  int64_t timeout_ms = 0;
};

// The condition under which a write takes effect.
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

// Maximum life of an item, from when the write takes effect; the minimum is 1 ms. Only the server's clock counts; a
// client that cannot decide whether an item has expired asks the server.
inline constexpr int64_t kMaxTtlMs = int64_t{10} * 366 * 24 * 3600 * 1000;
// Result of Client::Ttl for an item that never expires.
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// For Get, GetInto, Exists and Ttl; for MultiGet, per key.
struct GetOptions {
  int64_t timeout_ms = 0;
};

// For Put; for MultiPut, per key.
struct PutOptions {
  Condition condition = Condition::Always();
  int64_t timeout_ms = 0;
  int64_t ttl_ms = 0;     // after which the key is absent; 0: never
  bool keep_ttl = false;  // keeps the present item's expiry; a new key never expires. Not with ttl_ms
  // For a server that is a cache (--evict); ignored by others.
  bool keep = false;    // the item is never evicted, until a put without this option
  bool refill = false;  // the key was looked for and not found: if it was evicted recently, it is kept longer
};

// For Touch, Persist and GetAndTouch; for MultiTouch, per key.
struct TouchOptions {
  int64_t timeout_ms = 0;
};

// For Delete; for MultiDelete, per key.
struct DeleteOptions {
  Condition condition = Condition::Always();  // Always, IfPresent or IfVersion; an absent key is always NOT_FOUND
  int64_t timeout_ms = 0;
};

// For operations on counters; for batches of them, per key.
struct CounterOptions {
  // The change is a numbered message, which the server executes once however often it is sent. A broken connection does
  // not cause UNKNOWN, as long as the server and this client's session live. Costs the server's CPU.
  bool exactly_once = false;
  int64_t timeout_ms = 0;
  // For CreateCounter, and FetchAdd with `create`: the created counter is deleted after this time, or up to some
  // seconds later. 0: never. An existing counter keeps its expiry.
  int64_t ttl_ms = 0;
  // For FetchAdd: a counter that does not exist is created with `initial`, and `delta` is added, in one step. Then the
  // value before is `initial`. Like any FetchAdd it may end with UNKNOWN, unless exactly_once is set.
  bool create = false;
  int64_t initial = 0;
};

// For Ping, ServerStats and the calls of admin.h.
struct ServerOptions {
  int64_t timeout_ms = 0;
  // In a cluster: the group that is asked. NOT_FOUND: no group has that name. Empty: the group that Connect reached;
  // Ping asks all.
  std::string group = {};
};

}  // namespace farlook

#endif  // FARLOOK_OPTIONS_H_
