// Registered memory for messages, divided into slots for one message each: receive buffers, and copies of messages
// until they are sent. Unused memory is freed (Trim()).
#ifndef FARLOOK_RDMA_VERBS_QUEUES_MESSAGE_POOL_H_
#define FARLOOK_RDMA_VERBS_QUEUES_MESSAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

// Thread safety: none. The device must outlive it.
class MessagePool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit MessagePool(const Device* device) : device_(device) {}

  // Returns an unused slot, until Put(); kNone if there is no memory. Grows by chunks of kSlotsPerChunk.
  uint32_t Take();
  void Put(uint32_t slot) {
    ++chunks_[slot / kSlotsPerChunk].free;
    free_.push_back(slot);
  }

  // Returns whether the next slot needs more memory.
  bool used_up() const { return free_.empty(); }

  // RESOURCE_EXHAUSTED unless `slots` can be taken.
  absl::Status Reserve(size_t slots);

  // Frees unused chunks: half of them, so that repeated calls do not free what the next burst needs; or, if
  // `none_used`, all but one. REQUIRES: no slot is read after its Put().
  void Trim(bool none_used);
  // Bytes of registered memory.
  uint64_t bytes() const { return bytes_; }

  // 64-byte aligned; kSlotBytes.
  char* data(uint32_t slot) const {
    return chunks_[slot / kSlotsPerChunk].memory.data() + slot % kSlotsPerChunk * kSlotBytes;
  }
  uint32_t lkey(uint32_t slot) const { return chunks_[slot / kSlotsPerChunk].region->lkey; }

 private:
  // The region is destroyed before the memory. Without memory: it was freed, and its number can be reused.
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

#endif  // FARLOOK_RDMA_VERBS_QUEUES_MESSAGE_POOL_H_
