// The offers of a listener on one device. Shared with its endpoints and requests, which are used on other threads. A
// device that returns has its own: the same memory with other keys.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_OFFERS_H_
#define FARLOOK_RDMA_VERBS_DEVICE_OFFERS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "rdma/transport.h"
#include "rdma/verbs/device/device.h"

namespace farlook::rdma::verbs {

struct Offers {
  struct Offer {
    char* base;
    uint64_t bytes;
    Access access;
    MemoryRegion region;
    // Its key on the first device, by which the listener's user knows the range.
    uint32_t name;

    uint32_t rkey() const { return region->rkey; }
  };
  std::shared_ptr<Device> device;
  TransportOptions options;
  std::vector<Offer> offers;  // fixed before the first Accept

  // Returns null if no such range was offered.
  const Offer* Named(uint32_t name) const {
    const auto named = [name](const Offer& offer) { return offer.name == name; };
    const auto found = std::find_if(offers.begin(), offers.end(), named);
    return found != offers.end() ? &*found : nullptr;
  }
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_OFFERS_H_
