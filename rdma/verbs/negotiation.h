// What two devices and two sides can do together. Arithmetic only: no device is touched.
#ifndef FARLOOK_RDMA_VERBS_NEGOTIATION_H_
#define FARLOOK_RDMA_VERBS_NEGOTIATION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// What a device says of itself (ibv_query_device, ibv_query_port).
struct DeviceTraits {
  bool iwarp = false;
  bool atomics = false;              // the NIC does them atomically for other NIC atomics at least
  uint32_t max_serve_reads = 0;      // max_qp_rd_atom: READs and atomics of the peer that a queue pair serves at once
  uint32_t max_ask_reads = 0;        // max_qp_init_rd_atom: its own
  uint32_t max_send_wrs = 0;         // max_qp_wr
  uint32_t max_sges = 0;             // of any request
  uint32_t max_read_sges = 0;        // max_sge_rd
  uint32_t max_completions = 0;      // max_cqe: entries of a completion queue
  uint32_t max_shared_receives = 0;  // max_srq_wr; 0: no shared receive queues
  uint64_t max_message_bytes = 0;    // of the port
  uint64_t max_region_bytes = 0;     // max_mr_size
};

// Whether counters may be changed by this device's atomics: it promises that they are atomic with each other
// (IBV_ATOMIC_HCA), or with every agent's of the machine (IBV_ATOMIC_GLOB), of which the former is a part. No more is
// made use of: see "One atomic domain" in docs/design-notes.md. What a later version may add is not taken for either.
bool HasAtomics(ibv_atomic_cap promised);

enum class Role : uint8_t { kClient, kServer };

// READs and atomics under way at once. 8 bits each, as in a conn_param.
struct ReadDepths {
  uint8_t serve = 0;  // of the peer (responder_resources)
  uint8_t ask = 0;    // of this side (initiator_depth)
};

// What this side offers when it connects: all that the device can do.
ReadDepths OfferedDepths(const DeviceTraits& device);

// What both can do, given what the peer asks this side to serve, and is willing to serve. FAILED_PRECONDITION when that
// is nothing: neither reading nor probing works then.
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

// `atomics`: granted by the peer. `bounces`: READs land in a bounce buffer.
Capabilities CapabilitiesOf(const DeviceTraits& device, const QueuePlan& plan, const ReadDepths& depths, bool atomics);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_NEGOTIATION_H_
