// What kv_cli needs of a table: the seam between the commands and farlook::Client, so that the commands can be tested
// without a server. ClientStore is the real one; MemoryStore serves tests.
#ifndef FARLOOK_CLIENT_CLI_STORE_H_
#define FARLOOK_CLIENT_CLI_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/admin.h"
#include "farlook/async.h"

namespace farlook::cli {

// Thread safety: belongs to one thread.
class Store {
 public:
  virtual ~Store() = default;

  // Begins `operation`. It belongs to the store until Poll() returns it. Writes of one key take effect in the order in
  // which they began; all else that is in flight together has no order.
  virtual void Start(AsyncOperation* operation) = 0;
  // Makes progress; returns an operation that ended, or null. Never blocks.
  virtual AsyncOperation* Poll() = 0;
  // Sleeps until Poll() may have something to return, a signal arrives, or 100 ms are over.
  virtual void Wait() = 0;

  // These wait until done or the time is over.
  virtual absl::Status Ping(const ServerOptions& options) = 0;
  // "name value" a line.
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
  // None: the server is of no cluster.
  virtual absl::StatusOr<std::vector<ClusterGroup>> Groups(const ServerOptions& options) = 0;

  // Where it is connected to: see Client::address().
  virtual std::string address() const = 0;
  // The figures of this connection, in the same form.
  virtual std::string ClientStats() const = 0;
  // Another number than before means that the server was started anew, with an empty table.
  virtual uint64_t incarnation() const = 0;

  // Starts `operation` and waits until it ended. REQUIRES: no other is in flight.
  void Run(AsyncOperation* operation) {
    Start(operation);
    while (Poll() == nullptr) Wait();
  }
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_STORE_H_
