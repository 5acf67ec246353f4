// The connection manager's objects, each with one owner.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_CM_H_
#define FARLOOK_RDMA_VERBS_DEVICE_CM_H_

#include <rdma/rdma_cma.h>

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"

namespace farlook::rdma::verbs {

struct CmCloser {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  // Rejects or disconnects if necessary. Waits until every event of the id is acknowledged.
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using EventChannel = std::unique_ptr<rdma_event_channel, CmCloser>;
using CmId = std::unique_ptr<rdma_cm_id, CmCloser>;

// Non-blocking. Errors as for CannotOpen().
absl::StatusOr<EventChannel> MakeEventChannel();

// Passes every waiting event to `handle`, and acknowledges it.
void ForEachEvent(rdma_event_channel* channel, absl::FunctionRef<void(const rdma_cm_event&)> handle);

absl::string_view PrivateData(const rdma_cm_event& event);

// A port of a device, and an id that is bound to it, through whose events the connection manager reports the removal of
// the device.
struct DevicePort {
  std::string name;
  uint8_t port = 1;
  // Null if the address is one of all interfaces.
  EventChannel channel;
  CmId id;
};

// Return the port through which this host reaches `remote`, or at which it has the address `local`, found without
// sending anything. Errors as for NoDeviceAt() and CannotOpen().
absl::StatusOr<DevicePort> DeviceTowards(const SocketAddress& remote, absl::string_view shown);
absl::StatusOr<DevicePort> DeviceAt(SocketAddress local, absl::string_view shown);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_CM_H_
