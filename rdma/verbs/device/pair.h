// A queue pair with everything that it needs, as it passes from the handshake to its end.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_PAIR_H_
#define FARLOOK_RDMA_VERBS_DEVICE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/queue_pair.h"

namespace farlook::rdma::verbs {

// Created by EndpointDevice, and returned to it (Retire). Members are destroyed from the last to the first.
struct Pair {
  uint32_t tag = 0;  // of its connection, in the wr_id of its sends
  CmId id;
  uint32_t window = 0;            // receive buffers that are reserved for it
  ibv_cq* completions = nullptr;  // the queue in which its entries are reserved
  uint32_t completion_entries = 0;
  std::unique_ptr<QueuePairEvents> events = std::make_unique<QueuePairEvents>();
  QueuePair queue_pair;
  bool own_receives = false;    // it has a receive queue of its own
  std::vector<uint32_t> slots;  // posted there
  bool connecting = false;      // a client's attempt is with the connection manager
  bool peer_is_known = false;   // to the connection manager, which can notify the peer of the end
  bool failed = false;          // it broke by itself
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_PAIR_H_
