// The memory that one endpoint has registered with one device: what its user allocated (buffers.h), words for probes,
// and, of a server, what its listener offers, into which it pulls values.
#ifndef FARLOOK_RDMA_VERBS_REGISTERED_MEMORY_H_
#define FARLOOK_RDMA_VERBS_REGISTERED_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/local_memory.h"
#include "rdma/verbs/offers.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and offers outlive it.
class RegisteredMemory {
 public:
  // `offers`: of a listener; null for a client.
  RegisteredMemory(const Device* device, const Offers* offers) : device_(device), offers_(offers) {}
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Once, before anything else: registers the words for probes. Errors as of Register().
  absl::Status Begin();

  // Registers a buffer, until Remove(): its rkey, if it is readable by peers, else 0. Errors as of Register().
  absl::StatusOr<uint32_t> Add(char* data, size_t bytes, bool readable_by_peers);
  void Remove(const char* data);

  // Learns of what was offered since the last call. REQUIRES: it is a server's.
  void AddOffers();

  // Which local key belongs to an address.
  LocalMemory* local() { return &local_; }

  // The word that peers READ, and where their words land.
  RemoteRange probe_word() const;
  ibv_sge probe_landing() const;

 private:
  const Device* const device_;
  const Offers* const offers_;
  Mapping probe_memory_;  // the word, and, in another page, the landing
  MemoryRegion probe_word_;
  MemoryRegion probe_landing_;
  LocalMemory local_;
  absl::flat_hash_map<const char*, MemoryRegion> buffers_;
  size_t known_offers_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_REGISTERED_MEMORY_H_
