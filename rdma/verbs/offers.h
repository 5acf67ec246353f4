// What a listener offers, and where. Shared with its endpoints and requests, which are used on other threads.
#ifndef FARLOOK_RDMA_VERBS_OFFERS_H_
#define FARLOOK_RDMA_VERBS_OFFERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/transport.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/split_range.h"

namespace farlook::rdma::verbs {

struct Offers {
  struct Offer {
    char* base;
    uint64_t bytes;
    Access access;
    uint64_t stride_bytes;              // from one region's beginning to the next one's
    std::vector<MemoryRegion> regions;  // one, unless the device asks for more (split_range.h)

    uint32_t rkey() const { return regions[0]->rkey; }
  };
  std::shared_ptr<Device> device;
  TransportOptions options;
  std::vector<Offer> offers;       // fixed before the first Accept
  std::vector<SplitRange> splits;  // those of more than one region, as clients are told
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_OFFERS_H_
