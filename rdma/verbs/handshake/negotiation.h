// Common capabilities of two devices and two sides. Arithmetic only: no device is touched.
#ifndef FARLOOK_RDMA_VERBS_HANDSHAKE_NEGOTIATION_H_
#define FARLOOK_RDMA_VERBS_HANDSHAKE_NEGOTIATION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// Properties that a device reports (ibv_query_device, ibv_query_port).
struct DeviceTraits {
  bool iwarp = false;
  bool atomics = false;              // the device's atomics are atomic at least with those of the same device
  uint32_t max_serve_reads = 0;      // max_qp_rd_atom: READs and atomics of the peer that a queue pair executes at once
  uint32_t max_ask_reads = 0;        // max_qp_init_rd_atom: its own
  uint32_t max_send_wrs = 0;         // max_qp_wr
  uint32_t max_sges = 0;             // of any request
  uint32_t max_read_sges = 0;        // max_sge_rd
  uint32_t max_completions = 0;      // max_cqe: entries of a completion queue
  uint32_t max_shared_receives = 0;  // max_srq_wr; 0: no shared receive queues
  uint64_t max_message_bytes = 0;    // of the port
  uint64_t max_region_bytes = 0;     // max_mr_size
};

// Returns whether counters may be changed by this device's atomics. It must promise that they are atomic with each
// other (IBV_ATOMIC_HCA), or with those of every agent of the machine (IBV_ATOMIC_GLOB), which includes the former.
// Only the former is used: see "One atomic domain" in docs/design-notes.md. Values that later versions may add are not
// accepted.
bool HasAtomics(ibv_atomic_cap promised);

enum class Role : uint8_t { kClient, kServer };

// READs and atomics under way at once. 8 bits each, as in a conn_param.
struct ReadDepths {
  uint8_t serve = 0;  // of the peer (responder_resources)
  uint8_t ask = 0;    // of this side (initiator_depth)
};

// Returns this side's offer when it connects: all that the device can do.
ReadDepths OfferedDepths(const DeviceTraits& device);

// Returns the depths that both support. `peer_asks`: most that the peer posts; `peer_serves`: most that it executes.
// FAILED_PRECONDITION if a depth is 0: neither reading nor probing works then.
absl::StatusOr<ReadDepths> AgreedDepths(const DeviceTraits& device, uint32_t peer_asks, uint32_t peer_serves);

// The queues of one queue pair.
struct QueuePlan {
  uint32_t send_depth = 0;      // READs and atomics posted by the user and not completed
  uint32_t hardware_depth = 0;  // work requests with the device
  uint32_t send_sges = 1;
};
QueuePlan PlanQueues(const DeviceTraits& device, Role role);

// Entries of each completion queue of an endpoint.
uint32_t CompletionEntries(const DeviceTraits& device);

// `atomics`: granted by the peer.
Capabilities CapabilitiesOf(const DeviceTraits& device, const QueuePlan& plan, const ReadDepths& depths, bool atomics);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_HANDSHAKE_NEGOTIATION_H_
