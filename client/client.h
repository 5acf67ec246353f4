// The client: a Farlook table as an application sees it.
//
//     auto client = farlook::Client::Connect("shm:///run/farlook");
//     if (!client.ok()) return client.status();
//     absl::Status put = (*client)->Put("key", "value");
//     absl::StatusOr<farlook::Value> got = (*client)->Get("key");
//
// Gets read the server's memory with one-sided READs and run no instruction of the server (but see Lookups). Writes are
// messages.
//
// Thread safety: a Client belongs to one thread at a time. Threads that want to work at the same time have a Client
// each.
//
// Errors, of every operation (absl/status/status.h advises on retrying):
//     NOT_FOUND            the key is absent (Get, Exists' false, Replace, Delete, CompareAndSet); the table is
//                          unchanged
//     ALREADY_EXISTS       Insert: the key is present; the table is unchanged
//     ABORTED              CompareAndSet: the version is another; the table is unchanged; Get again and decide anew
//     INVALID_ARGUMENT     key empty or longer than 1,024 bytes, or value longer than the server's limit
//     OUT_OF_RANGE         GetInto: the buffer is too short; value_bytes says what it takes
//     RESOURCE_EXHAUSTED   the server's memory is full; the table is unchanged
//     PERMISSION_DENIED    a write by a read-only client, or the server refuses this client
//     DEADLINE_EXCEEDED    not done in time; a write may still be done later, once
//     UNAVAILABLE          no server answers at the address, or it went away; a write was not done
//     UNKNOWN              a write was sent, and the session that would tell its outcome is gone: it was done once, or
//                          not
//     DATA_LOSS            the server could not pull a large value, or not intact; the table is unchanged
//     FAILED_PRECONDITION  the key names a counter, or a value where a counter was asked for
//
// While no server answers at the address, operations fail with UNAVAILABLE at once. A connection that breaks while its
// server lives is resumed within the operations' deadlines; no write is done twice. When another server process
// answers, its table began empty: incarnation() is another, stats().incarnation_changes grows, and the next error says
// so.
#ifndef FARLOOK_CLIENT_CLIENT_H_
#define FARLOOK_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farlook {

// How a get finds its value.
enum class Lookups : uint8_t {
  kReads,     // with READs: no instruction of the server
  kMessages,  // the server is asked, and looks it up: one round trip, at the cost of its CPU; gets then need it to run.
              // The client READs only values that do not fit in a reply (4 KiB), or are empty, where the reply says.
              // For measuring what READs are worth, and for networks where a message costs less than they do
};

struct ClientOptions {
  int64_t timeout_ms = 1000;  // of an operation that gives none of its own, and of Connect
  bool read_only = false;     // asks for no right to write
  Lookups lookups = Lookups::kReads;
  uint32_t max_in_flight = 256;  // operations that run at once; more wait in the client. The server may grant fewer
                                 // writes at once
  int64_t location_cache_bytes = -1;  // bound of the memory for locations of items; 0 none; -1: 16 MiB where a READ is
                                      // a round trip, none where it is a cache miss (shm)
  int64_t counter_cache_bytes = 16 << 20;  // bound of the memory for the cells of counters, 32 bytes each; taken from
                                           // the first counter on, touched as it fills. 0: every operation on a
                                           // counter is a message
  int64_t min_backoff_ms = 1;              // between attempts to reconnect: doubles, with jitter, up to max_backoff_ms
  int64_t max_backoff_ms = 200;
  int64_t spin_us = 50;             // a waiting call polls this long before it sleeps
  int64_t liveness_ms = 3000;       // in which a server that is silently gone is noticed (rdma)
  uint32_t max_outstanding = 1024;  // READs with the devices at once, of all clients of the process (rdma)
};

// A value and the version that CompareAndSet wants. A key's version changes with every write to it and is never 0.
struct Value {
  std::string data;
  uint64_t version = 0;
};

// One asynchronous operation. It belongs to the caller; from Start() until Poll() returns it, neither it nor what its
// key, value and buffer point to may change.
struct Operation {
  enum class Type : uint8_t {
    kGet,            // key -> buffer or *string
    kExists,         // key; status OK or NOT_FOUND
    kPut,            // key, value
    kInsert,         // key, value; only if absent
    kReplace,        // key, value; only if present
    kCompareAndSet,  // key, value, version; only if that is the version
    kDelete,         // key
    kPing,           // asks the server's CPU for an answer
    kStat,           // key (what, or empty) -> buffer or *string

    // Of counters: see CreateCounter and the others in Client.
    kCreateCounter,  // key, operand: the first value
    kFetchAdd,       // key, operand: the delta, exactly_once -> counter
    kCompareSwap,    // key, expected, operand: the desired value, exactly_once -> counter
    kReadCounter,    // key -> counter
    kDeleteCounter,  // key -> counter
  };

  // In.
  Type type = Type::kGet;
  absl::string_view key;
  absl::string_view value;
  uint64_t version = 0;           // kCompareAndSet: expected. Out: of the item now there, where known (else 0)
  absl::Span<char> buffer;        // receives the value, if `string` is null. Undefined bytes unless status is OK
  std::string* string = nullptr;  // kGet: receives the value, resized
  int64_t timeout_ms = 0;         // 0: the client's
  void* tag = nullptr;            // the caller's

  // Out.
  absl::Status status;
  size_t value_bytes = 0;  // kGet: of the value, also when the buffer was too short

  // The client's own, from Start() until Poll() returns it.
  struct Internal {
    Operation* next = nullptr;
    int64_t deadline_ns = 0;
    bool blocking = false;  // a call waits for it: Poll() does not return it
    bool done = false;
  };
  Internal internal;

  // Of counters. In:
  int64_t operand = 0;
  int64_t expected = 0;
  bool exactly_once = false;
  // Out: the value before the operation took effect; also with OUT_OF_RANGE and ALREADY_EXISTS.
  int64_t counter = 0;
};

// What happened, since Connect. Each figure only grows.
struct ClientStats {
  uint64_t gets = 0;  // Get, GetInto, MultiGet's keys, Exists
  uint64_t hits = 0;
  uint64_t misses = 0;           // NOT_FOUND
  uint64_t puts = 0;             // writes of all kinds that were sent
  uint64_t bucket_reads = 0;     // READs of buckets
  uint64_t item_reads = 0;       // READs of items
  uint64_t read_retries = 0;     // rounds that had to begin again: torn, dead, changed
  uint64_t cached_hits = 0;      // gets answered at the location remembered
  uint64_t stale_locations = 0;  // remembered locations that no longer held the key
  uint64_t directory_refreshes = 0;
  uint64_t server_gets = 0;    // gets that asked the server: since they had to, or for Lookups::kMessages
  uint64_t pulled_values = 0;  // writes whose value the server pulled
  uint64_t reconnects = 0;
  uint64_t resent_requests = 0;      // after a reconnect
  uint64_t timeouts = 0;             // operations that ended with DEADLINE_EXCEEDED
  uint64_t incarnation_changes = 0;  // reconnects that found another server process, and so an empty table
  uint64_t atomics = 0;              // posted on counters' cells, and READs of cells
  uint64_t counter_requests = 0;     // answers of the server about counters
  uint64_t dead_cells = 0;           // atomics that found their counter deleted
  uint64_t unknown_atomics = 0;      // operations that ended with UNKNOWN since a connection broke under their atomic
};

class ClientImpl;

class Client {
 public:
  // Connects to a kv_server at "shm:///path" or "rdma://host:port". Errors: INVALID_ARGUMENT for the address;
  // UNAVAILABLE when nothing answers there within timeout_ms; RESOURCE_EXHAUSTED when this process lacks descriptors or
  // memory (a server that does answers nobody); PERMISSION_DENIED and FAILED_PRECONDITION with the server's reason.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address, const ClientOptions& options = {});
  ~Client();  // gives up what is in flight
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Each call below waits until it is done or its time is over: `timeout_ms`, or the client's where that is 0.

  absl::StatusOr<Value> Get(absl::string_view key, int64_t timeout_ms = 0);
  // The same without allocating where *value has the capacity. `version` may be null.
  absl::Status Get(absl::string_view key, std::string* value, uint64_t* version = nullptr, int64_t timeout_ms = 0);
  // The value into the caller's memory; returns its length. On shm one above 4 KiB is copied once, from the table.
  absl::StatusOr<size_t> GetInto(absl::string_view key, absl::Span<char> buffer, uint64_t* version = nullptr,
                                 int64_t timeout_ms = 0);
  // Many at once, reads overlapped. (*results)[i] is of keys[i]: its status, and its value in `data` and `version`.
  // Returns OK when each key was found or is absent, else the first other error. `results` is resized; its strings are
  // reused.
  struct Result {
    absl::Status status;
    Value value;
  };
  absl::Status MultiGet(absl::Span<const absl::string_view> keys, std::vector<Result>* results, int64_t timeout_ms = 0);

  absl::StatusOr<bool> Exists(absl::string_view key, int64_t timeout_ms = 0);

  // Writes return the key's new version.
  absl::StatusOr<uint64_t> Put(absl::string_view key, absl::string_view value, int64_t timeout_ms = 0);
  absl::StatusOr<uint64_t> Insert(absl::string_view key, absl::string_view value, int64_t timeout_ms = 0);
  absl::StatusOr<uint64_t> Replace(absl::string_view key, absl::string_view value, int64_t timeout_ms = 0);
  // Puts only if the key's version is `version` (from Get or from a write).
  absl::StatusOr<uint64_t> CompareAndSet(absl::string_view key, absl::string_view value, uint64_t version,
                                         int64_t timeout_ms = 0);
  absl::Status Delete(absl::string_view key, int64_t timeout_ms = 0);

  // Counters: numbers in [-2^61, 2^61) that clients change in place, one round trip each and, where the transport has
  // atomics (shm, RDMA NICs), without the server's CPU once this client has used the counter; else by messages, with
  // the same results. A key names either a counter or a value. Errors beside those above:
  //     NOT_FOUND            there is no counter of this key, or not any more
  //     ALREADY_EXISTS       CreateCounter: there is
  //     FAILED_PRECONDITION  the key names a value
  //     OUT_OF_RANGE         the sum would leave the range, and nothing was added; or the counter is outside of it (a
  //                          client died between an add beyond the end and taking it back), until a CompareSwap that
  //                          expects its value resets it. Near the ends others may see sums that are taken back
  //     INVALID_ARGUMENT     a delta above 2^40 either way, a value outside the range
  //     DEADLINE_EXCEEDED    not done in time; may still be done later, once
  //     UNKNOWN              the connection broke while the change was under way: it was done once, or not. It is never
  //                          repeated blindly. Where that matters: exactly_once, or a CompareSwap and a look
  absl::Status CreateCounter(absl::string_view key, int64_t initial = 0, int64_t timeout_ms = 0);
  // Returns the value before.
  struct FetchAddOptions {
    // Sent as a message with a number, which the server carries out once however often it has to be sent: a connection
    // that breaks is no reason for UNKNOWN, as long as the server and this client's session live. Costs server CPU.
    bool exactly_once = false;
    int64_t timeout_ms = 0;
  };
  absl::StatusOr<int64_t> FetchAdd(absl::string_view key, int64_t delta, const FetchAddOptions& options);
  absl::StatusOr<int64_t> FetchAdd(absl::string_view key, int64_t delta) { return FetchAdd(key, delta, {}); }
  // Sets the counter to `desired` if it is `expected`. Returns the value before: it was set if that is `expected`.
  absl::StatusOr<int64_t> CompareSwap(absl::string_view key, int64_t expected, int64_t desired, int64_t timeout_ms = 0);
  absl::StatusOr<int64_t> ReadCounter(absl::string_view key, int64_t timeout_ms = 0);
  // Afterwards no add succeeds, until the counter is created anew.
  absl::Status DeleteCounter(absl::string_view key, int64_t timeout_ms = 0);

  // Many at once, overlapped. (*results)[i] is of keys[i]. Returns OK, or the first error that is not NOT_FOUND.
  // REQUIRES deltas.size() == keys.size().
  struct CounterResult {
    absl::Status status;
    int64_t value = 0;  // before the add
  };
  absl::Status MultiFetchAdd(absl::Span<const absl::string_view> keys, absl::Span<const int64_t> deltas,
                             std::vector<CounterResult>* results, const FetchAddOptions& options);
  absl::Status MultiReadCounter(absl::Span<const absl::string_view> keys, std::vector<CounterResult>* results,
                                int64_t timeout_ms = 0);
  // Starts all of them together, of any types, and waits until all are done: each has its status.
  void RunAll(absl::Span<Operation> operations);

  // Asks the server's CPU for an answer.
  absl::Status Ping(int64_t timeout_ms = 0);
  // The server's figures, one "name value" a line (docs/operations.md lists them).
  absl::StatusOr<std::string> ServerStats(int64_t timeout_ms = 0);

  // Asynchronous use: Start() many, then Poll() until each came back. Never blocks. Operations of one key that are in
  // flight together may take effect in any order.
  void Start(Operation* operation);
  // Starts many, with their first READs posted together.
  void Start(absl::Span<Operation* const> operations);
  // Makes progress; returns up to done.size() operations that ended.
  size_t Poll(absl::Span<Operation*> done);
  size_t in_flight() const;

  // To sleep while operations are in flight: if Arm() returns true, wait until fd() is readable or wait_ms()
  // milliseconds are over (-1: no limit), then Poll(). If it returns false there is something to poll already.
  bool Arm();
  int fd() const;
  int64_t wait_ms() const;

  const ClientStats& stats() const;
  // Random number of the server's life; another one after a reconnect means that the table started anew, empty.
  uint64_t incarnation() const;
  // Bytes that this client has allocated: location cache, directory, buffers, rings.
  uint64_t memory_bytes() const;

 private:
  explicit Client(std::unique_ptr<ClientImpl> impl);
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace farlook

#endif  // FARLOOK_CLIENT_CLIENT_H_
