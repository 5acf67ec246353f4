// A Store in this process's memory, for tests: what a real table guarantees, and nothing more. Operations in flight
// together take effect in random order, but writes of one key in the order of their start. Tests choose which
// operations fail.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_STORE_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/context/store.h"
#include "client/op/operation.h"

namespace farlook::cli {

class MemoryStore : public Store {
 public:
  explicit MemoryStore(uint32_t seed = 1) : random_(seed) {}

  struct Item {
    std::string value;
    uint64_t version = 0;
    int64_t ttl_ms = 0;  // no time passes here; 0: never expires
    bool keep = false;
  };
  std::map<std::string, Item>& items() { return items_; }
  std::map<std::string, int64_t>& counters() { return counters_; }
  // Milliseconds of those that expire.
  std::map<std::string, int64_t>& counter_ttls() { return counter_ttls_; }
  void Put(const std::string& key, const std::string& value) { items_[key] = {value, ++last_version_, 0, false}; }

  // Called for each operation before it takes effect, with its number from 1. A status that is not OK is its result.
  using Fault = std::function<absl::Status(uint64_t number, const client::Operation& operation)>;
  void set_fault(Fault fault) { fault_ = std::move(fault); }
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }
  void set_server_stats(absl::StatusOr<std::string> stats) { server_stats_ = std::move(stats); }

  // Simulates a cluster whose groups all have the same figures and clients.
  std::vector<ClusterGroup>& groups() { return groups_; }
  // The connections that Clients() returns.
  std::vector<ConnectedClient>& clients() { return clients_; }

  size_t most_in_flight() const { return most_in_flight_; }
  uint64_t operations() const { return operations_; }

  void Start(AsyncOperation* operation) override;
  AsyncOperation* Poll() override;
  void Wait() override {}
  // A cursor is the last key that was returned; one with a space is invalid.
  absl::Status Scan(const ScanOptions& options, const TakeItem& take, std::string* cursor) override;
  absl::Status Ping(const ServerOptions& options) override;
  absl::StatusOr<std::string> ServerStats(const ServerOptions& options) override;
  absl::StatusOr<std::vector<ConnectedClient>> Clients(const ServerOptions& options) override;
  absl::Status Kick(uint64_t id, const ServerOptions& options) override;
  absl::StatusOr<std::string> GroupStatus(const ServerOptions& options) override;
  absl::Status HandOver(const ServerOptions& options) override { return GroupStatus(options).status(); }
  absl::Status ResizeGroup(uint32_t replicas, uint32_t min_insync, const ServerOptions& options) override {
    sizes_[options.group] = absl::StrCat("members ", replicas, " of ", replicas, ", at least ", min_insync, "\n");
    return GroupStatus(options).status();
  }
  absl::Status TakeSlots(const std::string&, const std::string&, const ServerOptions&) override { return NoMoves(); }
  absl::Status CancelMove(const ServerOptions&) override { return NoMoves(); }
  absl::Status LeaveCluster(const ServerOptions&) override { return NoMoves(); }
  absl::StatusOr<std::vector<ClusterGroup>> Groups(const ServerOptions&) override { return groups_; }
  std::string ClientStats() const override;
  std::string address() const override { return address_; }
  // Lines of the status of a group, after the others.
  void set_group_state(std::string lines) { group_state_ = std::move(lines); }
  void set_address(std::string address) { address_ = std::move(address); }
  uint64_t incarnation() const override { return incarnation_; }

 private:
  static absl::Status NoMoves() { return absl::UnimplementedError("of an earlier release"); }
  void Apply(client::Operation* operation);
  absl::Status Read(client::Operation* operation);
  absl::Status Write(client::Operation* operation);
  absl::Status Touch(client::Operation* operation);
  absl::Status Count(client::Operation* operation);
  absl::Status ExpiryOfCounter(client::Operation* operation);

  std::mt19937 random_;
  std::map<std::string, Item> items_;
  std::map<std::string, int64_t> counters_;
  std::map<std::string, int64_t> counter_ttls_;
  std::vector<AsyncOperation*> in_flight_;
  Fault fault_;
  absl::StatusOr<std::string> server_stats_ = std::string();
  std::vector<ConnectedClient> clients_;
  std::vector<ClusterGroup> groups_;
  std::string address_ = "memory";
  std::string group_state_;
  std::map<std::string, std::string> sizes_;  // of resized groups: a line of their status
  uint64_t incarnation_ = 1;
  uint64_t last_version_ = 0;
  uint64_t operations_ = 0;
  size_t most_in_flight_ = 0;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_MEMORY_STORE_H_
