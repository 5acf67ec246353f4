// The buffers of one endpoint that its peers may READ, and their keys.
#ifndef FARLOOK_RDMA_SHM_BUFFER_REGISTRY_H_
#define FARLOOK_RDMA_SHM_BUFFER_REGISTRY_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/shm/limits.h"

namespace farlook::rdma::shm {

class BufferRegistry {
 public:
  struct Entry {
    int fd = -1;
    uint32_t rkey = 0;  // 0: the slot is free
    uint64_t bytes = 0;
  };

  // Assigns the memory a key. RESOURCE_EXHAUSTED beyond kMaxBuffers or kMaxBufferBytes, the limits that peers enforce.
  absl::StatusOr<uint32_t> Add(int fd, uint64_t bytes);
  void Remove(uint32_t rkey);

  // Including free slots.
  const std::array<Entry, kMaxBuffers>& entries() const { return entries_; }

 private:
  std::array<Entry, kMaxBuffers> entries_;
  uint64_t total_bytes_ = 0;
  uint32_t generation_ = 0;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_BUFFER_REGISTRY_H_
