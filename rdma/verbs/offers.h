// What a listener offers, and where. Shared with its endpoints and requests, which are used on other threads.
#ifndef FARLOOK_RDMA_VERBS_OFFERS_H_
#define FARLOOK_RDMA_VERBS_OFFERS_H_

#include <memory>
#include <vector>

#include "rdma/transport.h"
#include "rdma/verbs/device.h"

namespace farlook::rdma::verbs {

struct Offers {
  struct Offer {
    char* base;
    uint64_t bytes;
    Access access;
    MemoryRegion region;
  };
  std::shared_ptr<Device> device;
  TransportOptions options;
  std::vector<Offer> offers;  // fixed before the first Accept
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_OFFERS_H_
