// The simulated backend's Listener and ConnectionRequest. See network.h.
#ifndef FARLOOK_RDMA_SIM_LISTENER_H_
#define FARLOOK_RDMA_SIM_LISTENER_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rdma/sim/network.h"
#include "rdma/sim/wire.h"
#include "rdma/transport.h"

namespace farlook::rdma::sim {

class SimListener : public Listener {
 public:
  SimListener(Network* network, absl::string_view name, Party party, std::function<void()> wake);
  ~SimListener() override;

  std::string address() const override { return "sim://" + name_; }
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) override;
  AtomicDomain atomic_domain() const override;
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override;
  std::unique_ptr<ConnectionRequest> Next() override;
  int fd() const override { return -1; }

  // A request to connect arrives.
  void Arrive(std::shared_ptr<Wire> wire, std::string hello);

 private:
  Network* const network_;
  const std::string name_;
  const Party party_;
  const std::function<void()> wake_;
  std::vector<uint32_t> rkeys_;
  std::deque<std::unique_ptr<ConnectionRequest>> waiting_;
};

}  // namespace farlook::rdma::sim

#endif  // FARLOOK_RDMA_SIM_LISTENER_H_
