// The Store over a farlook::Client.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_CLIENT_STORE_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_CLIENT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/context/store.h"
#include "client/cli/input/options.h"
#include "farlook/client.h"
#include "farlook/scan.h"

namespace farlook::cli {

class ClientStore : public Store {
 public:
  // Errors: those of Client::Connect.
  static absl::StatusOr<std::unique_ptr<Store>> Connect(const Options& options);

  explicit ClientStore(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  void Start(AsyncOperation* operation) override { client_->Start(operation); }
  AsyncOperation* Poll() override;
  void Wait() override;
  absl::Status Scan(const ScanOptions& options, const TakeItem& take, std::string* cursor) override;
  absl::Status Ping(const ServerOptions& options) override { return client_->Ping(options); }
  absl::StatusOr<std::string> ServerStats(const ServerOptions& options) override {
    return client_->ServerStats(options);
  }
  absl::StatusOr<std::vector<ConnectedClient>> Clients(const ServerOptions& options) override {
    return ListClients(client_.get(), options);
  }
  absl::StatusOr<std::string> GroupStatus(const ServerOptions& options) override {
    return farlook::GroupStatus(client_.get(), options);
  }
  absl::Status HandOver(const ServerOptions& options) override { return farlook::HandOver(client_.get(), options); }
  absl::Status ResizeGroup(uint32_t replicas, uint32_t min_insync, const ServerOptions& options) override {
    return farlook::ResizeGroup(client_.get(), replicas, min_insync, options);
  }
  absl::Status TakeSlots(const std::string& giver, const std::string& slot_ranges,
                         const ServerOptions& options) override {
    return farlook::TakeSlots(client_.get(), giver, slot_ranges, options);
  }
  absl::Status CancelMove(const ServerOptions& options) override { return farlook::CancelMove(client_.get(), options); }
  absl::Status LeaveCluster(const ServerOptions& options) override {
    return farlook::LeaveCluster(client_.get(), options);
  }
  absl::Status Kick(uint64_t id, const ServerOptions& options) override {
    return KickClient(client_.get(), id, options);
  }
  absl::StatusOr<std::vector<ClusterGroup>> Groups(const ServerOptions& options) override;
  std::string ClientStats() const override;
  std::string address() const override { return client_->address(); }
  uint64_t incarnation() const override { return client_->incarnation(); }

 private:
  const std::unique_ptr<Client> client_;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_CLIENT_STORE_H_
