// What kv_cli needs of a table: the seam between the commands and farlook::Client, so that the commands can be tested
// without a server. ClientStore is the real one; MemoryStore serves tests.
#ifndef FARLOOK_CLIENT_CLI_STORE_H_
#define FARLOOK_CLIENT_CLI_STORE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farlook::cli {

// One operation on a key. It owns its bytes: lines of input are gone long before the operations they began have ended.
// The error codes of `status` are those of farlook/client.h.
struct Request {
  enum class Type {
    kGet,
    kExists,
    kPut,
    kInsert,
    kReplace,
    kCompareAndSet,
    kDelete,
    // Of counters.
    kCreateCounter,
    kFetchAdd,
    kCompareSwap,
    kReadCounter,
    kDeleteCounter,
  };

  Type type = Type::kGet;
  std::string key;
  std::string value;       // in: what to write; out: what kGet found
  uint64_t version = 0;    // in: what kCompareAndSet expects; out: of the item now there
  int64_t timeout_ms = 0;  // 0: the store's
  int64_t operand = 0;     // in: first value, delta or desired value of a counter
  int64_t expected = 0;    // in: what kCompareSwap expects
  int64_t counter = 0;     // out: the counter's value before

  absl::Status status;
};

inline bool IsCounter(Request::Type type) { return type >= Request::Type::kCreateCounter; }

// Thread safety: belongs to one thread.
class Store {
 public:
  virtual ~Store() = default;

  // Begins `request`. It belongs to the store until Poll() returns it.
  virtual void Start(Request* request) = 0;
  // Makes progress; returns a request that ended, or null. Never blocks.
  virtual Request* Poll() = 0;
  // Sleeps until Poll() may have something to return, a signal arrives, or 100 ms are over.
  virtual void Wait() = 0;

  // Both wait until done or `timeout_ms` are over.
  virtual absl::Status Ping(int64_t timeout_ms) = 0;
  // "name value" a line.
  virtual absl::StatusOr<std::string> ServerStats(int64_t timeout_ms) = 0;

  // The figures of this connection, in the same form.
  virtual std::string ClientStats() const = 0;
  // Another number than before means that the server was started anew, with an empty table.
  virtual uint64_t incarnation() const = 0;

  // Starts `request` and waits until it ended. REQUIRES: no other request is in flight.
  void Run(Request* request) {
    Start(request);
    while (Poll() == nullptr) Wait();
  }
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_STORE_H_
