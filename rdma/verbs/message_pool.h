// Registered memory for messages, cut into slots that each hold one: receive buffers, and what messages are copied to
// until they are sent. Memory that is not used is given back (Trim()).
#ifndef FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_
#define FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_

#include <cstddef>
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

  // A slot nobody else has, until Put(); kNone when there is no memory. Grows by chunks of kSlotsPerChunk.
  uint32_t Take();
  void Put(uint32_t slot) {
    ++chunks_[slot / kSlotsPerChunk].free;
    free_.push_back(slot);
  }

  // RESOURCE_EXHAUSTED unless `slots` can be taken.
  absl::Status Reserve(size_t slots);

  // Gives chunks back that nobody uses: half of them, so that who calls this again and again does not give back what
  // the next burst takes again; or, where nobody is left, all but one. REQUIRES: no slot is read after its Put().
  void Trim(bool nobody_left);
  // Of memory that is registered.
  uint64_t bytes() const { return bytes_; }

  // 64-byte aligned; kSlotBytes.
  char* data(uint32_t slot) const {
    return chunks_[slot / kSlotsPerChunk].memory.data() + slot % kSlotsPerChunk * kSlotBytes;
  }
  uint32_t lkey(uint32_t slot) const { return chunks_[slot / kSlotsPerChunk].region->lkey; }

 private:
  // The region goes before the memory. Without memory: it was given back, and its number can be used again.
  struct Chunk {
    Mapping memory;
    MemoryRegion region;
    size_t free = 0;  // slots
  };

  absl::Status Grow();

  const Device* const device_;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_;
  uint64_t bytes_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_MESSAGE_POOL_H_
