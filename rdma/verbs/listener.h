// The server's end of an rdma:// address.
//
// If its device is lost, it checks each second whether a device has the address again. It then registers all offers
// again, and listens: the ranges have other keys for clients that connect from then on (ConnectionRequest::Current).
#ifndef FARLOOK_RDMA_VERBS_LISTENER_H_
#define FARLOOK_RDMA_VERBS_LISTENER_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/host/resolver.h"
#include "rdma/host/unique_fd.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/listener_device.h"
#include "rdma/verbs/loopback.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::verbs {

class VerbsListener final : public Listener, private AsyncSink {
 public:
  // Errors as for CannotListen() and Device::Open(). An address of all interfaces (0.0.0.0) is allowed only if the host
  // has just one RDMA device, as offers are registered with one.
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Create(const Address& address, const TransportOptions& options);
  ~VerbsListener() override;

  // Listener:
  std::string address() const override { return address_; }
  std::vector<std::string> bound() const override {
    return device_ == nullptr ? std::vector<std::string>() : device_->bound();
  }
  absl::Status status() const override { return status_; }
  // Errors as for ListenerDevice::Offer().
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) override;
  AtomicDomain atomic_domain() const override { return atomic_domain_; }
  absl::StatusOr<std::unique_ptr<Loopback>> ConnectToItself(const RemoteRange& range) override;
  absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() override;
  std::unique_ptr<ConnectionRequest> Next() override;
  int fd() const override { return epoll_.get(); }
  int numa_node() const override { return numa_node_; }

 private:
  // A range to be offered on each device.
  struct Wanted {
    SharedRange range;
    Access access;
    RemoteRange named;  // as it was returned
  };
  struct Itself {
    RemoteRange range;
    std::shared_ptr<LoopbackOfListener::Current> loopback;
  };

  VerbsListener(std::string address, SocketAddresses locals, const TransportOptions& options)
      : address_(std::move(address)), locals_(std::move(locals)), options_(options) {}
  absl::Status Begin();
  absl::Status UseDevice();
  absl::Status Prepare(ListenerDevice* device);
  void LeaveDevice(absl::Status why);
  void LookForDevice();
  absl::Status Watch(int descriptor);
  void OnEvent(const rdma_cm_event& event);
  void OnRequest(const rdma_cm_event& event);

  // AsyncSink, on any thread:
  void OnQueuesLost(ibv_event_type) override { wake_.Wake(); }
  void OnSomethingToDo() override {}

  const std::string address_;
  const SocketAddresses locals_;
  const TransportOptions options_;
  AtomicDomain atomic_domain_ = AtomicDomain::kNone;
  int numa_node_ = -1;
  absl::Status status_;
  std::vector<Wanted> wanted_;
  std::vector<Itself> itself_;
  // From here on destroyed from the last to the first: unread requests, the listening id, its channel.
  EventChannel channel_;
  UniqueFd epoll_;
  UniqueFd timer_;  // runs while there is no device
  WakeFd wake_;
  std::unique_ptr<ListenerDevice> device_;  // null: it is lost
  std::deque<std::unique_ptr<ConnectionRequest>> requests_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LISTENER_H_
