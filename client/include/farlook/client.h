// The client: a Farlook table as an application sees it.
//
// Hello, world:
//     #include <iostream>
//     #include "farlook/client.h"
//
//     int main() {
//       auto client = farlook::Client::Connect("shm:///run/farlook");
//       if (!client.ok()) return 1;
//       auto put = (*client)->Put("key", "value", {.condition = farlook::Condition::IfAbsent()});
//       auto got = (*client)->Get("key", {.timeout_ms = 20});
//       if (got.ok()) std::cout << got->data << " of version " << got->version << "\n";
//     }
//
// Gets read the server's memory with one-sided READs and run no instruction of the server (except with kMessages, see
// Lookups). Writes are messages; the server executes each once, even if it is sent again. Options are in options.h,
// operations that do not wait in async.h, statistics of the client in stats.h.
//
// Thread safety: one thread at a time; a second one ends the process with a message, if detected. After fork() the
// Client stays the parent's: in the child calls fail with FAILED_PRECONDITION, and the destructor only frees memory.
//
// Errors of every call. Each has a message that says what happened. What to do, unless the call says otherwise:
//
//   NOT_FOUND            no such key; the table is unchanged
//   ALREADY_EXISTS       IfAbsent: the key is present; the table is unchanged
//   ABORTED              IfVersion: the key has another version; the table is unchanged. Get it again and decide again
//   INVALID_ARGUMENT     key empty or longer than 1,024 bytes, value longer than the server's limit: correct the call
//   OUT_OF_RANGE         GetInto: the buffer is too short for the value. Counters: see below
//   FAILED_PRECONDITION  the key names a counter, or a value where a counter is required; the server has another
//                        version; or the client belongs to the parent process: correct the call, update, or connect
//   PERMISSION_DENIED    a write by a client that may only read, or the server does not allow this client
//   UNAUTHENTICATED      client or server did not prove its identity (ClientOptions::user)
//   RESOURCE_EXHAUSTED   the server's memory is full, and the table unchanged: delete something. Connect: the server
//                        has --max_clients (worth trying again), or this process lacks descriptors or memory
//   UNAVAILABLE          no server answers at the address, or it is shutting down or lost; a write was not executed:
//                        try again after a pause, or connect with ClientOptions::wait_for_server
//   DEADLINE_EXCEEDED    not finished in time. The server begins no write after its deadline. One that it began
//                        before was executed once, even if the reply was late: use Get to see
//   UNKNOWN              a write was sent, and the session with its outcome is lost: executed once or not; use Get
//   DATA_LOSS            the server could not pull a large value intact; the table is unchanged: try again. Or all
//                        members of the group are gone with their data: an operator must begin it again
//
// If a connection breaks while its server lives, it is resumed within the operations' deadlines. If a server answers
// that does not have the table, incarnation() differs, stats().incarnation_changes grows, and the next error says so.
#ifndef FARLOOK_CLIENT_H_
#define FARLOOK_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/options.h"
#include "farlook/stats.h"

namespace farlook {

class AsyncOperation;
class ClientImpl;

// A value and its version, for Condition::IfVersion. A key's version changes with every write to it and is never 0.
struct Value {
  std::string data;
  uint64_t version = 0;
};

// The result of a batch for one key. `value` is what the call for this key alone returns.
template <typename T>
struct Result {
  absl::Status status;
  T value = T();
};

class Client {
 public:
  // Connects to a server, group or cluster. A server: "shm:///path", "rdma://host:port", "tcp://host:port", or
  // "auto://host:port" (rdma, else tcp). A group: all addresses, separated by commas. A cluster: any of its servers,
  // "farlook://host:port,.../NAME". With options.wait_for_server it tries for options.timeout_ms.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::string_view address, const ClientOptions& options = {});
  ~Client();  // abandons what is in flight; afterwards nothing refers to the operations
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Each call waits until it is finished or its timeout, counted from the beginning of the call, has passed.
  absl::StatusOr<Value> Get(std::string_view key, const GetOptions& options = {});
  // The same, without allocation if value->data has the capacity. *value is undefined unless the status is OK.
  absl::Status Get(std::string_view key, Value* value, const GetOptions& options = {});
  // Reads the value into `buffer` and returns its length. On shm a value above 4 KiB is copied once, from the table.
  // `version` may be null. The bytes are undefined unless the status is OK.
  absl::StatusOr<size_t> GetInto(std::string_view key, std::span<char> buffer, const GetOptions& options = {},
                                 uint64_t* version = nullptr);
  absl::StatusOr<bool> Exists(std::string_view key, const GetOptions& options = {});

  // Returns the key's new version.
  absl::StatusOr<uint64_t> Put(std::string_view key, std::string_view value, const PutOptions& options = {});
  absl::Status Delete(std::string_view key, const DeleteOptions& options = {});

  // Expiry. A put sets how long its item lives (PutOptions::ttl_ms). These calls read or change only that; value and
  // version stay the same. The key of an expired item is absent for all clients and conditions; its memory is free at
  // most some seconds later. INVALID_ARGUMENT: a ttl below 1 ms or above kMaxTtlMs.
  absl::Status Touch(std::string_view key, int64_t ttl_ms, const TouchOptions& options = {});
  absl::Status Persist(std::string_view key, const TouchOptions& options = {});  // never expires
  // Returns the remaining life in milliseconds, at least 1, or kForever. Like a get, it uses no server CPU.
  absl::StatusOr<int64_t> Ttl(std::string_view key, const GetOptions& options = {});
  // Touch and Get in one round trip. A value above 4 KiB, or whose reply was lost with its connection, is read after
  // the touch, and may then be a later one.
  absl::StatusOr<Value> GetAndTouch(std::string_view key, int64_t ttl_ms, const TouchOptions& options = {});

  // Batches: many keys in one call, overlapped. (*results)[i] belongs to keys[i]; `results` is resized, its strings are
  // reused. The options of the single call apply to each key, except the timeout, which is that of the whole call. For
  // conditions that differ between keys use async.h. Returns OK if each key was processed or is absent, else the first
  // other error; the rest is executed nevertheless. Writes to one key take effect in their order. The value of a write
  // is the new version; with ABORTED and ALREADY_EXISTS the item's. INVALID_ARGUMENT, without effect: lengths differ.
  absl::Status MultiGet(std::span<const std::string_view> keys, std::vector<Result<Value>>* results,
                        const GetOptions& options = {});
  absl::Status MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                        std::vector<Result<uint64_t>>* results, const PutOptions& options = {});
  absl::Status MultiDelete(std::span<const std::string_view> keys, std::vector<Result<uint64_t>>* results,
                           const DeleteOptions& options = {});
  absl::Status MultiTouch(std::span<const std::string_view> keys, int64_t ttl_ms,
                          std::vector<Result<uint64_t>>* results, const TouchOptions& options = {});
  absl::Status MultiFetchAdd(std::span<const std::string_view> keys, std::span<const int64_t> deltas,
                             std::vector<Result<int64_t>>* results, const CounterOptions& options = {});
  // The values are those of the counters, also with ALREADY_EXISTS.
  absl::Status MultiCreateCounter(std::span<const std::string_view> keys, std::span<const int64_t> initials,
                                  std::vector<Result<int64_t>>* results, const CounterOptions& options = {});
  absl::Status MultiReadCounter(std::span<const std::string_view> keys, std::vector<Result<int64_t>>* results,
                                const CounterOptions& options = {});

  // Counters: numbers in [-2^61, 2^61) that clients change in place, in one round trip each. If the transport has
  // atomics (shm, RDMA NICs), no CPU of the server is used once this client knows the counter; else messages give the
  // same results. A key names either a counter or a value. Errors with another meaning here:
  //
  //   NOT_FOUND          there is no counter of this key, or no longer. FetchAdd creates none without `create`
  //   ALREADY_EXISTS     CreateCounter: the counter exists
  //   OUT_OF_RANGE       the sum would leave the range, and nothing was added; or the counter is outside it (a client
  //                      died between an add beyond the end and its reversal), until a CompareSwap that expects its
  //                      value resets it. Near the ends others may see sums that are reversed
  //   INVALID_ARGUMENT   |delta| above 2^40, or a value outside the range
  //   DEADLINE_EXCEEDED  not finished in time; an atomic that was posted may still be executed later, once
  //   UNKNOWN            the connection broke during the change: it was executed once or not at all. It is never
  //                      repeated blindly. If that matters: CounterOptions::exactly_once, or a CompareSwap and a look
  absl::Status CreateCounter(std::string_view key, int64_t initial = 0, const CounterOptions& options = {});
  // Returns the value before. With CounterOptions::create a counter that does not exist is created.
  absl::StatusOr<int64_t> FetchAdd(std::string_view key, int64_t delta, const CounterOptions& options = {});
  // Sets the counter to `desired` if it is `expected`. Returns the value before: it was set if that is `expected`.
  absl::StatusOr<int64_t> CompareSwap(std::string_view key, int64_t expected, int64_t desired,
                                      const CounterOptions& options = {});
  absl::StatusOr<int64_t> ReadCounter(std::string_view key, const CounterOptions& options = {});
  // Afterwards no add succeeds until the counter is created again. Returns the last value.
  absl::StatusOr<int64_t> DeleteCounter(std::string_view key, const CounterOptions& options = {});

  absl::Status Ping(const ServerOptions& options = {});  // asks the server's CPU, or all groups', for a reply
  // Returns the server's statistics, one "name value" a line (docs/operations.md lists them).
  absl::StatusOr<std::string> ServerStats(const ServerOptions& options = {});
  absl::Status Warm(const WarmOptions& options = {});  // READs the index, so that the first get of a key is one READ
  // Asynchronous use: Start() many operations of async.h, then Poll() until each has ended. Neither call blocks.
  void Start(AsyncOperation* operation);
  // When the operation has ended, Poll() or Wait() calls `then` with it instead of returning it. `then` may start,
  // change or destroy the operation. It may use the client, except Poll, Wait and the destructor.
  void Start(AsyncOperation* operation, std::function<void(AsyncOperation*)> then);
  // Starts many operations, with their first READs posted together.
  void Start(std::span<AsyncOperation* const> operations);
  // Makes progress; returns up to done.size() operations that ended, in that order.
  size_t Poll(std::span<AsyncOperation*> done);
  // The same, but waits until an operation is returned, a callback was called, or nothing is in flight.
  size_t Wait(std::span<AsyncOperation*> done);
  size_t in_flight() const;  // started, and neither returned nor passed to its callback

  // For a caller's own loop that sleeps while operations are in flight. If Arm() is true, wait until fd() is readable
  // or wait_ms() milliseconds have passed (-1: no limit), then Poll(). If it is false, Poll() at once.
  bool Arm();
  int fd() const;
  int64_t wait_ms() const;

  const ClientStats& stats() const;
  // The given address; for auto:// the chosen one: "rdma://host:port", or "tcp://host:port (not rdma: REASON)".
  const std::string& address() const;
  // Random number of the server's table (cluster: of the home group's). If it changes, the table began empty again.
  uint64_t incarnation() const;
  // Bytes that this client has allocated: index mirror (its bound), directory, buffers, rings.
  uint64_t memory_bytes() const;

 private:
  friend class ClientImpl;
  explicit Client(std::unique_ptr<ClientImpl> impl);
  std::unique_ptr<ClientImpl> impl_;
};

}  // namespace farlook

#endif  // FARLOOK_CLIENT_H_
