// The server's end of an rdma:// address.
#ifndef FARLOOK_RDMA_VERBS_LISTENER_H_
#define FARLOOK_RDMA_VERBS_LISTENER_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/shm/unique_fd.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/offers.h"

namespace farlook::rdma::verbs {

class VerbsListener final : public Listener {
 public:
  // Errors as of CannotListen() and Device::Open(). An address of all interfaces (0.0.0.0) is good where the host has
  // one RDMA device only, as what is offered is registered with one.
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Create(const Address& address, const TransportOptions& options);

  // Listener:
  std::string address() const override { return address_; }
  // RESOURCE_EXHAUSTED: the memlock limit, or the range is longer than the device's memory regions may be.
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) override;
  AtomicDomain atomic_domain() const override;
  absl::StatusOr<std::unique_ptr<Loopback>> ConnectToItself(const RemoteRange& range) override;
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override;
  std::unique_ptr<ConnectionRequest> Next() override;
  int fd() const override { return epoll_.get(); }
  int numa_node() const override;

 private:
  VerbsListener(std::string address, std::shared_ptr<Offers> offers, EventChannel channel, shm::UniqueFd epoll)
      : address_(std::move(address)),
        offers_(std::move(offers)),
        channel_(std::move(channel)),
        epoll_(std::move(epoll)) {}
  absl::Status Listen(SocketAddress local);
  bool Watch(int descriptor);
  void OnEvent(const rdma_cm_event& event);
  void OnRequest(const rdma_cm_event& event);

  const std::string address_;
  const std::shared_ptr<Offers> offers_;
  // From here on destroyed from the last to the first: requests not asked for, the listening id, its channel.
  const EventChannel channel_;
  const shm::UniqueFd epoll_;
  CmId id_;
  std::deque<std::unique_ptr<ConnectionRequest>> requests_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LISTENER_H_
