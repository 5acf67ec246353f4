// The registered memory of one endpoint: its user's buffers, words for probes, and, of a server, what its listener
// offers, into which it pulls values.
#ifndef FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_
#define FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/local_memory.h"
#include "rdma/verbs/offers.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Of one device at a time, which is there, with the offers, from Begin() to End(). The buffers
// stay when devices change: only their keys are others then. It outlives them.
class EndpointMemory {
 public:
  EndpointMemory();
  ~EndpointMemory();
  EndpointMemory(const EndpointMemory&) = delete;
  EndpointMemory& operator=(const EndpointMemory&) = delete;

  // Registers the words for probes, and the buffers that there are. `offers`: of a listener; null for a client. Errors
  // as of Register(); End() is due then too.
  absl::Status Begin(const Device* device, const Offers* offers);
  void End();

  // As of Endpoint. UNAVAILABLE while there is no device.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers);

  // What was offered since the last call.
  void AddOffers();

  // Which local key belongs to an address.
  LocalMemory* local() { return &local_; }

  // The word that peers READ, and where their words land.
  RemoteRange probe_word() const;
  ibv_sge probe_landing() const;

 private:
  class OwnBuffer;

  const Device* device_ = nullptr;
  const Offers* offers_ = nullptr;
  Mapping probe_memory_;  // the word, and, in another page, the landing
  MemoryRegion probe_word_;
  MemoryRegion probe_landing_;
  LocalMemory local_;
  std::vector<OwnBuffer*> buffers_;
  size_t known_offers_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_
