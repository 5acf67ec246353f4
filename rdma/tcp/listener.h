// A server's TCP address.
#ifndef FARLOOK_RDMA_TCP_LISTENER_H_
#define FARLOOK_RDMA_TCP_LISTENER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/tcp/read_server.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {

class TcpListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<TcpListener>> Create(const Address& address, const TransportOptions& options);

  // Listener:
  std::string address() const override { return address_; }
  std::vector<std::string> bound() const override { return bound_; }
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) override;
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override;
  std::unique_ptr<ConnectionRequest> Next() override;
  int fd() const override { return server_->fd(); }
  ReadsServed reads_served() const override { return server_->served(); }

 private:
  TcpListener(std::string address, std::vector<std::string> bound, const TransportOptions& options,
              std::unique_ptr<ReadServer> server);

  const std::string address_;
  const std::vector<std::string> bound_;
  const TransportOptions options_;
  const std::unique_ptr<ReadServer> server_;
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_LISTENER_H_
