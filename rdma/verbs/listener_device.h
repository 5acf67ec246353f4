// All that one listener has on one device: the device, the memory that it offers there, and the id that listens. When
// the device goes, this goes as a whole; for the next device there is another.
//
// Endpoints, requests and loopbacks are used on other threads. They keep what they share of it (Offers) until they let
// go by themselves.
#ifndef FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_
#define FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/loopback.h"
#include "rdma/verbs/offers.h"

namespace farlook::rdma::verbs {

// Thread safety: none.
class ListenerDevice {
 public:
  // Opens the device that the address `local`, which errors call `address`, belongs to now. Errors as of
  // Device::Open().
  static absl::StatusOr<std::unique_ptr<ListenerDevice>> Open(const SocketAddress& local, const std::string& address,
                                                              const TransportOptions& options);
  ~ListenerDevice();
  ListenerDevice(const ListenerDevice&) = delete;
  ListenerDevice& operator=(const ListenerDevice&) = delete;

  Device& device() const { return *offers_->device; }
  const std::shared_ptr<Offers>& offers() const { return offers_; }

  // Registers a range, under the name that the listener's user knows it by; 0: its key here. RESOURCE_EXHAUSTED: the
  // memlock limit, or the range is longer than the device's memory regions may be.
  absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access, uint32_t name);

  // Has `epoll` and the sink told of the device's events, and listens: requests come to `channel`. Once; all three
  // outlive this. Errors as of CannotListen().
  absl::Status Listen(rdma_event_channel* channel, int epoll, AsyncSink* sink);

  // To a range, as its user knows it. Errors as of VerbsLoopback::Create().
  absl::StatusOr<std::shared_ptr<VerbsLoopback>> ConnectToItself(RemoteRange range) const;

 private:
  ListenerDevice(const SocketAddress& local, std::string address, std::shared_ptr<Offers> offers);

  SocketAddress local_;
  const std::string address_;
  const std::shared_ptr<Offers> offers_;
  std::optional<SinkRegistration> told_;
  int epoll_ = -1;  // -1: it is not told
  CmId id_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_LISTENER_DEVICE_H_
