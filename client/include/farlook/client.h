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
// Gets read the server's memory with one-sided READs and run no instruction of the server (but see Lookups). Writes are
// messages, which the server carries out once however often they have to be sent. Options, a struct for each kind of
// call, are in options.h; operations that do not wait, in async.h; what the client counts about itself, in stats.h.
//
// Thread safety: a Client belongs to one thread at a time. Threads that want to work at the same time have one each.
//
// Errors, of every call. Each has a message that says what happened. What to do, unless the call says otherwise:
//
//   NOT_FOUND            no such key; the table is unchanged
//   ALREADY_EXISTS       IfAbsent: the key is there; the table is unchanged
//   ABORTED              IfVersion: the key has another version; the table is unchanged. Get again and decide anew
//   INVALID_ARGUMENT     key empty or longer than 1,024 bytes, value longer than the server's limit: correct the call
//   OUT_OF_RANGE         GetInto: the buffer is too short for the value. Counters: see below
//   FAILED_PRECONDITION  the key names a counter, or a value where a counter was asked for; or the server is of another
//                        version: correct the call, or update
//   PERMISSION_DENIED    a write by a client that may only read, or the server does not allow this client;
//                        UNAUTHENTICATED: client or server did not prove who it is (ClientOptions::user)
//   RESOURCE_EXHAUSTED   the server's memory is full, and the table unchanged: delete something. Of Connect: the server
//                        has --max_clients (worth trying again), or this process lacks descriptors or memory
//   UNAVAILABLE          no server answers at the address, it is shutting down, or it went away; a write was not done:
//                        try again after a pause, or connect with ClientOptions::wait_for_server
//   DEADLINE_EXCEEDED    not done in time. The server begins no write after its deadline; one that it had begun by then,
//                        or answered too late, was done, once: Get tells
//   UNKNOWN              a write was sent, and the session that knows its outcome is gone: done once, or not; Get tells
//   DATA_LOSS            the server could not pull a large value, or not intact; the table is unchanged: try again. Or all
//                        members of the group are gone, and what it held is lost: it is begun anew by an operator
//
// A connection that breaks while its server lives is resumed within the operations' deadlines. When another server
// process answers, its table began empty: incarnation() is another, stats().incarnation_changes grows, and the next
// error says so. Of a cluster an error that is not about its key begins with the group, and which server it was.
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

// What a batch says of one of its keys. `value` is what the call for that key alone returns.
template <typename T>
struct Result {
  absl::Status status;
  T value = T();
};

class Client {
 public:
  // Connects to a kv_server at "shm:///path", "rdma://host:port", "tcp://host:port" or "auto://host:port" (rdma, else
  // tcp), to a group's, all addresses with commas between, or to a cluster's, "farlook://host:port,.../NAME", by any of
  // its servers. Tries until options.timeout_ms are over where options.wait_for_server says so.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::string_view address, const ClientOptions& options = {});
  ~Client();  // gives up what is in flight; afterwards nothing refers to the operations
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Each call waits until it is done or its time is over, which begins when the call begins.
  absl::StatusOr<Value> Get(std::string_view key, const GetOptions& options = {});
  // The same without allocating where value->data has the capacity. Unless OK, *value means nothing.
  absl::Status Get(std::string_view key, Value* value, const GetOptions& options = {});
  // The value into the caller's memory; returns its length. On shm one above 4 KiB is copied once, from the table.
  // `version` may be null. Unless OK, the bytes mean nothing.
  absl::StatusOr<size_t> GetInto(std::string_view key, std::span<char> buffer, const GetOptions& options = {},
                                 uint64_t* version = nullptr);
  absl::StatusOr<bool> Exists(std::string_view key, const GetOptions& options = {});

  // Returns the key's new version.
  absl::StatusOr<uint64_t> Put(std::string_view key, std::string_view value, const PutOptions& options = {});
  absl::Status Delete(std::string_view key, const DeleteOptions& options = {});

  // Expiry. A put says how long its item lives (PutOptions::ttl_ms); these look at that and change it, and nothing
  // else: value and version stay. Once an item has expired its key is absent, for every client and every condition, and
  // its memory is free some seconds later at most. INVALID_ARGUMENT: a ttl below 1 ms or above kMaxTtlMs.
  absl::Status Touch(std::string_view key, int64_t ttl_ms, const TouchOptions& options = {});
  absl::Status Persist(std::string_view key, const TouchOptions& options = {});  // it never expires
  // Milliseconds that it lives still, from 1 on, or kForever. As a get it runs no instruction of the server.
  absl::StatusOr<int64_t> Ttl(std::string_view key, const GetOptions& options = {});
  // Touch and Get in one round trip. A value above 4 KiB, and one whose answer was lost with its connection, is read
  // after it was touched, and may be a later one then.
  absl::StatusOr<Value> GetAndTouch(std::string_view key, int64_t ttl_ms, const TouchOptions& options = {});

  // Batches: many keys in one call, overlapped. (*results)[i] is of keys[i]; `results` is resized, its strings reused.
  // They have the options of the single call, which hold for each key alike, but for the time, which is that of the
  // whole call; for conditions that differ from key to key there is async.h. Returns OK if each key was dealt with or
  // is absent, else the first other error; the rest is done all the same. Within a batch of writes, those of one key
  // take effect in their order. Writes' values are the new version; with ABORTED and ALREADY_EXISTS that of the item
  // there. INVALID_ARGUMENT, and nothing is done, if there are not as many values or numbers as keys.
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
  // Values are what the counters hold, also with ALREADY_EXISTS.
  absl::Status MultiCreateCounter(std::span<const std::string_view> keys, std::span<const int64_t> initials,
                                  std::vector<Result<int64_t>>* results, const CounterOptions& options = {});
  absl::Status MultiReadCounter(std::span<const std::string_view> keys, std::vector<Result<int64_t>>* results,
                                const CounterOptions& options = {});

  // Counters: numbers in [-2^61, 2^61) that clients change in place, one round trip each and, where the transport has
  // atomics (shm, RDMA NICs), without the server's CPU once this client has used the counter; else by messages, with
  // the same results. A key names either a counter or a value. Errors that mean something else here:
  //
  //   NOT_FOUND          there is no counter of this key, or not any more
  //   ALREADY_EXISTS     CreateCounter: there is
  //   OUT_OF_RANGE       the sum would leave the range, and nothing was added; or the counter is outside of it (a client
  //                      died between an add beyond the end and taking it back), until a CompareSwap that expects its
  //                      value resets it. Near the ends others may see sums that are taken back
  //   INVALID_ARGUMENT   a delta above 2^40 either way, a value outside the range
  //   DEADLINE_EXCEEDED  not done in time; an atomic that was posted may still be done later, once
  //   UNKNOWN            the connection broke while the change was under way: it was done once, or not. It is never
  //                      repeated blindly. Where that matters: CounterOptions::exactly_once, or a CompareSwap and a look
  absl::Status CreateCounter(std::string_view key, int64_t initial = 0, const CounterOptions& options = {});
  // Returns the value before.
  absl::StatusOr<int64_t> FetchAdd(std::string_view key, int64_t delta, const CounterOptions& options = {});
  // Sets the counter to `desired` if it is `expected`. Returns the value before: it was set if that is `expected`.
  absl::StatusOr<int64_t> CompareSwap(std::string_view key, int64_t expected, int64_t desired,
                                      const CounterOptions& options = {});
  absl::StatusOr<int64_t> ReadCounter(std::string_view key, const CounterOptions& options = {});
  // Afterwards no add succeeds, until the counter is created anew. Returns the last value.
  absl::StatusOr<int64_t> DeleteCounter(std::string_view key, const CounterOptions& options = {});

  absl::Status Ping(const ServerOptions& options = {});  // asks the server's CPU for an answer, or all groups'
  // The server's figures, one "name value" a line (docs/operations.md lists them).
  absl::StatusOr<std::string> ServerStats(const ServerOptions& options = {});
  absl::Status Warm(const WarmOptions& options = {});  // READs the index, so that the first get of a key is one READ
  // Asynchronous use: Start() many operations of async.h, then Poll() until each has ended. Neither ever blocks.
  void Start(AsyncOperation* operation);
  // `then` is called with the operation when it has ended, by Poll() or Wait() and by nothing else; these do not return
  // it. The operation is its own by then: it may start, change or destroy it. It may use the client, but for Poll, Wait
  // and the destructor.
  void Start(AsyncOperation* operation, std::function<void(AsyncOperation*)> then);
  // Starts many, with their first READs posted together.
  void Start(std::span<AsyncOperation* const> operations);
  // Makes progress; returns up to done.size() operations that ended, in that order.
  size_t Poll(std::span<AsyncOperation*> done);
  // The same, but waits until there is one to return or a callback was called, or nothing is in flight.
  size_t Wait(std::span<AsyncOperation*> done);
  size_t in_flight() const;  // started, and neither returned nor handed to its callback

  // To sleep in one's own loop while operations are in flight: if Arm() is true, wait until fd() is readable or
  // wait_ms() milliseconds are over (-1: no limit), then Poll(). If it is false there is something to poll already.
  bool Arm();
  int fd() const;
  int64_t wait_ms() const;

  const ClientStats& stats() const;
  // As given; of auto:// what it took: "rdma://host:port", or "tcp://host:port (not rdma: REASON)".
  const std::string& address() const;
  // Random number of the server's (of a cluster: home group's) life; another one after a reconnect: its table is anew.
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
