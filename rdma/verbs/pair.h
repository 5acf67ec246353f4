// A queue pair with all that it needs to live, as it goes from the handshake to its end.
#ifndef FARLOOK_RDMA_VERBS_PAIR_H_
#define FARLOOK_RDMA_VERBS_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/queue_pair.h"

namespace farlook::rdma::verbs {

// EndpointDevice makes it, and takes it back (Retire). Members are destroyed from the last to the first.
struct Pair {
  uint32_t tag = 0;  // of its connection, in the wr_id of what it sends
  CmId id;
  uint32_t window = 0;            // receive buffers that are reserved for it
  ibv_cq* completions = nullptr;  // where so many entries are
  uint32_t completion_entries = 0;
  std::unique_ptr<QueuePairEvents> events = std::make_unique<QueuePairEvents>();
  QueuePair queue_pair;
  bool own_receives = false;    // it has a receive queue of its own
  std::vector<uint32_t> slots;  // posted there
  bool connecting = false;      // a client's attempt is with the connection manager
  bool peer_is_known = false;   // to the connection manager, which can tell the peer of the end
  bool failed = false;          // it broke by itself
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_PAIR_H_
