// The registered memory of one endpoint: its user's buffers, words for probes, and, of a server, what its listener
// offers, into which it pulls values.
#ifndef FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_
#define FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shm/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/local_memory.h"
#include "rdma/verbs/offers.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and offers outlive it, and it outlives its buffers.
class EndpointMemory {
 public:
  // `offers`: of a listener; null for a client.
  EndpointMemory(const Device* device, const Offers* offers) : device_(device), offers_(offers) {}
  EndpointMemory(const EndpointMemory&) = delete;
  EndpointMemory& operator=(const EndpointMemory&) = delete;

  // Once, first: makes the words for probes. Errors as of Register().
  absl::Status Begin();

  // As of Endpoint.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers);

  // What was offered since the last call.
  void AddOffers();

  // Which local key belongs to an address.
  LocalMemory* local() { return &local_; }

  // The word that peers READ, and where their words land.
  RemoteRange probe_word() const;
  ibv_sge probe_landing() const;

 private:
  const Device* const device_;
  const Offers* const offers_;
  shm::Mapping probe_memory_;  // the word, and, in another page, the landing
  MemoryRegion probe_word_;
  MemoryRegion probe_landing_;
  LocalMemory local_;
  size_t known_offers_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_ENDPOINT_MEMORY_H_
