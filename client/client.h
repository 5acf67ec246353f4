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
#include "client/operation.h"
#include "farlook/options.h"
#include "farlook/stats.h"

namespace farlook {

// A value and the version that CompareAndSet wants. A key's version changes with every write to it and is never 0.
struct Value {
  std::string data;
  uint64_t version = 0;
};

// One asynchronous operation. It belongs to the caller; from Start() until Poll() returns it, neither it nor what its
// key, value and buffer point to may change.
struct Operation : client::Operation {
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

  Type type = Type::kGet;
  absl::Span<char> buffer;        // receives the value, if `string` is null. Undefined bytes unless status is OK
  std::string* string = nullptr;  // kGet: receives the value, resized
  void* tag = nullptr;            // the caller's
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
