// Everything that one listener has on one device: the device, the memory that it offers there, and the ids that listen.
// It is discarded with the device; the next device has another one.
//
// Endpoints, requests and loopbacks are used on other threads. They keep their shared part (Offers) until they release
// it themselves.
#ifndef FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_
#define FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/resolver.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/offers.h"
#include "rdma/verbs/loopback.h"

namespace farlook::rdma::verbs {

// Thread safety: none.
class ListenerDevice {
 public:
  // Opens the device of the first of the addresses `locals` that has one now. Errors, as for Device::Open(), name
  // `address`.
  static absl::StatusOr<std::unique_ptr<ListenerDevice>> Open(const SocketAddresses& locals, const std::string& address,
                                                              const TransportOptions& options);
  ~ListenerDevice();
  ListenerDevice(const ListenerDevice&) = delete;
  ListenerDevice& operator=(const ListenerDevice&) = delete;

  Device& device() const { return *offers_->device; }
  const std::shared_ptr<Offers>& offers() const { return offers_; }

  // Registers a range under the name by which the listener's user knows it; 0: its key here. RESOURCE_EXHAUSTED: the
  // memlock limit, or the range is longer than the device's memory regions may be.
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access, uint32_t name);

  // Registers the device's events with `epoll` and the sink, and listens at all addresses that belong to the device:
  // requests arrive at `channel`. To be called once; all three must outlive this. Errors as for CannotListen().
  absl::Status Listen(rdma_event_channel* channel, int epoll, AsyncSink* sink);

  // The addresses at which it listens, "10.0.0.1:7471".
  std::vector<std::string> bound() const;

  // Connects to a range, as its user knows it. Errors as for VerbsLoopback::Create().
  absl::StatusOr<std::shared_ptr<VerbsLoopback>> ConnectToItself(RemoteRange range) const;

 private:
  ListenerDevice(SocketAddresses locals, std::string address, std::shared_ptr<Offers> offers);
  absl::StatusOr<CmId> ListenAt(SocketAddress local, rdma_event_channel* channel) const;

  const SocketAddresses locals_;
  const std::string address_;
  const std::shared_ptr<Offers> offers_;
  std::optional<SinkRegistration> registration_;
  int epoll_ = -1;  // -1: not registered
  std::vector<CmId> ids_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_
