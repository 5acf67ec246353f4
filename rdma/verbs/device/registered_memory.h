// The memory that one endpoint has registered with one device: its user's buffers (buffers.h), words for probes, and,
// for a server, its listener's offers, into which it pulls values.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_REGISTERED_MEMORY_H_
#define FARLOOK_RDMA_VERBS_DEVICE_REGISTERED_MEMORY_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/device/local_memory.h"
#include "rdma/verbs/device/offers.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Device and offers must outlive it.
class RegisteredMemory {
 public:
  // `offers`: the listener's; null for a client.
  RegisteredMemory(const Device* device, const Offers* offers) : device_(device), offers_(offers) {}
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Registers the words for probes; once, before anything else. Errors as for Register().
  absl::Status Begin();

  // Registers a buffer until Remove(). Returns its rkey if it is readable by peers, otherwise 0. Errors as for
  // Register().
  absl::StatusOr<uint32_t> Add(char* data, size_t bytes, bool readable_by_peers);
  void Remove(const char* data);

  // Adds the offers made since the last call. REQUIRES: it is a server's.
  void AddOffers();

  // Maps addresses to local keys.
  LocalMemory* local() { return &local_; }

  // The word that peers READ, and the destination of this side's READs of theirs.
  RemoteRange probe_word() const;
  ibv_sge probe_buffer() const;

 private:
  const Device* const device_;
  const Offers* const offers_;
  Mapping probe_memory_;  // the word, and, in another page, the destination
  MemoryRegion probe_word_;
  MemoryRegion probe_buffer_;
  LocalMemory local_;
  absl::flat_hash_map<const char*, MemoryRegion> buffers_;
  size_t known_offers_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_REGISTERED_MEMORY_H_
