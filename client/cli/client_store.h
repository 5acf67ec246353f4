// The Store over a farlook::Client.
#ifndef FARLOOK_CLIENT_CLI_CLIENT_STORE_H_
#define FARLOOK_CLIENT_CLI_CLIENT_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/options.h"
#include "client/cli/store.h"
#include "client/client.h"

namespace farlook::cli {

class ClientStore : public Store {
 public:
  // Errors: those of Client::Connect.
  static absl::StatusOr<std::unique_ptr<Store>> Connect(const Options& options);

  explicit ClientStore(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  void Start(Request* request) override;
  Request* Poll() override;
  void Wait() override;
  absl::Status Ping(int64_t timeout_ms) override { return client_->Ping(timeout_ms); }
  absl::StatusOr<std::string> ServerStats(int64_t timeout_ms) override { return client_->ServerStats(timeout_ms); }
  std::string ClientStats() const override;
  uint64_t incarnation() const override { return client_->incarnation(); }

 private:
  Operation* NewOperation();

  // Operations that the client, until it returned them, points to. `free_` are those not in use.
  std::deque<Operation> operations_;
  std::vector<Operation*> free_;
  // What the last Poll() of the client returned, from done_[next_done_] on not yet given out.
  std::array<Operation*, 64> done_{};
  size_t done_count_ = 0;
  size_t next_done_ = 0;
  const std::unique_ptr<Client> client_;  // last: its destructor may still touch the operations
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CLIENT_STORE_H_
