// Registered memory for messages, cut into slots that each hold one: receive buffers, and what messages are copied to
// until they are sent.
#ifndef FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_
#define FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/limits.h"

namespace farlook::rdma::verbs {

// Thread safety: none. The device outlives it.
class MessagePool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit MessagePool(const Device* device) : device_(device) {}

  // A slot nobody else has, until Put(); kNone when there is no memory. Grows by chunks of kSlotsPerChunk, which stay.
  uint32_t Take();
  void Put(uint32_t slot) { free_.push_back(slot); }

  // RESOURCE_EXHAUSTED unless `slots` can be taken.
  absl::Status Reserve(size_t slots);

  // 64-byte aligned; kSlotBytes.
  char* data(uint32_t slot) const {
    return chunks_[slot / kSlotsPerChunk].memory.data() + slot % kSlotsPerChunk * kSlotBytes;
  }
  uint32_t lkey(uint32_t slot) const { return chunks_[slot / kSlotsPerChunk].region->lkey; }

 private:
  // The region goes before the memory.
  struct Chunk {
    Mapping memory;
    MemoryRegion region;
  };

  absl::Status Grow();

  const Device* const device_;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_
