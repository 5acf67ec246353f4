// The operations that kv_cli needs from a table: an interface between the commands and farlook::Client, so that the
// commands can be tested without a server. ClientStore is the real one; MemoryStore serves tests.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_STORE_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/admin.h"
#include "farlook/async.h"
#include "farlook/scan.h"

namespace farlook::cli {

// Thread safety: belongs to one thread.
class Store {
 public:
  virtual ~Store() = default;

  // Starts `operation`. It belongs to the store until Poll() returns it. Writes of one key take effect in the order of
  // their start; other operations in flight together have no order.
  virtual void Start(AsyncOperation* operation) = 0;
  // Makes progress; returns an operation that ended, or null. Never blocks.
  virtual AsyncOperation* Poll() = 0;
  // Sleeps until Poll() may have something to return, a signal arrives, or 100 ms have passed.
  virtual void Wait() = 0;

  // The item, and the part of the scan that is done: [0, 1].
  using TakeItem = std::function<bool(const ScannedItem& item, double done)>;
  // Walks through the table (farlook/scan.h). Calls `take` for each item, until it returns false. `*cursor` is set to
  // where another scan continues, also after an error.
  virtual absl::Status Scan(const ScanOptions& options, const TakeItem& take, std::string* cursor) = 0;

  // These calls wait for the result or the timeout.
  virtual absl::Status Ping(const ServerOptions& options) = 0;
  // Returns one "name value" per line.
  virtual absl::StatusOr<std::string> ServerStats(const ServerOptions& options) = 0;

  // See farlook/admin.h.
  virtual absl::StatusOr<std::vector<ConnectedClient>> Clients(const ServerOptions& options) = 0;
  virtual absl::Status Kick(uint64_t id, const ServerOptions& options) = 0;
  virtual absl::StatusOr<std::string> GroupStatus(const ServerOptions& options) = 0;
  virtual absl::Status HandOver(const ServerOptions& options) = 0;
  virtual absl::Status ResizeGroup(uint32_t replicas, uint32_t min_insync, const ServerOptions& options) = 0;
  virtual absl::Status TakeSlots(const std::string& giver, const std::string& slot_ranges,
                                 const ServerOptions& options) = 0;
  virtual absl::Status CancelMove(const ServerOptions& options) = 0;
  virtual absl::Status LeaveCluster(const ServerOptions& options) = 0;
  // Returns none if the server is in no cluster.
  virtual absl::StatusOr<std::vector<ClusterGroup>> Groups(const ServerOptions& options) = 0;

  // Returns the address of the connection: see Client::address().
  virtual std::string address() const = 0;
  // Returns the figures of this connection, in the same form.
  virtual std::string ClientStats() const = 0;
  // A different number than before means that the server was restarted, with an empty table.
  virtual uint64_t incarnation() const = 0;

  // Starts `operation` and waits until it has ended. REQUIRES: no other is in flight.
  void Run(AsyncOperation* operation) {
    Start(operation);
    while (Poll() == nullptr) Wait();
  }
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_STORE_H_
