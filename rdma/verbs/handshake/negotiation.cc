#include "rdma/verbs/handshake/negotiation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {
namespace {

uint8_t Depth(uint32_t a, uint32_t b) { return static_cast<uint8_t>(std::min({a, b, uint32_t{UINT8_MAX}})); }

}  // namespace

bool HasAtomics(ibv_atomic_cap promised) { return promised == IBV_ATOMIC_HCA || promised == IBV_ATOMIC_GLOB; }

ReadDepths OfferedDepths(const DeviceTraits& device) {
  // In a conn_param, 255 is not a number but "as many as possible".
  constexpr uint32_t kMost = UINT8_MAX - 1;
  return {Depth(device.max_serve_reads, kMost), Depth(device.max_ask_reads, kMost)};
}

absl::StatusOr<ReadDepths> AgreedDepths(const DeviceTraits& device, uint32_t peer_asks, uint32_t peer_serves) {
  const ReadDepths own = OfferedDepths(device);
  const ReadDepths agreed = {Depth(own.serve, peer_asks), Depth(own.ask, peer_serves)};
  if (agreed.ask == 0 || agreed.serve == 0) {
    return absl::FailedPreconditionError(absl::StrCat("the two devices agree on ", agreed.ask, " READs one way and ",
                                                      agreed.serve, " the other; each way needs one at least"));
  }
  return agreed;
}

QueuePlan PlanQueues(const DeviceTraits& device, Role role) {
  const bool client = role == Role::kClient;
  QueuePlan plan;
  plan.send_depth = client ? kClientSendDepth : kServerSendDepth;
  plan.hardware_depth = std::min(client ? kClientHardwareDepth : kServerHardwareDepth, device.max_send_wrs);
  plan.send_sges = std::clamp<uint32_t>(std::min(device.max_sges, device.max_read_sges), 1, kMaxReadSges);
  return plan;
}

uint32_t CompletionEntries(const DeviceTraits& device) {
  return std::min(device.max_completions, kCompletionQueueEntries);
}

Capabilities CapabilitiesOf(const DeviceTraits& device, const QueuePlan& plan, const ReadDepths& depths, bool atomics) {
  Capabilities can;
  can.atomics = atomics && device.atomics;
  can.max_outstanding_reads = std::min<uint32_t>(depths.ask, plan.send_depth);
  can.send_queue_depth = plan.send_depth;
  can.max_read_sges = plan.send_sges;
  can.reads_at_once = true;
  can.max_read_bytes = std::min(device.max_message_bytes, kMaxReadBytes);
  return can;
}

}  // namespace farlook::rdma::verbs
