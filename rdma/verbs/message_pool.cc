#include "rdma/verbs/message_pool.h"

#include <utility>

namespace farlook::rdma::verbs {

absl::Status MessagePool::Grow() {
  constexpr size_t kChunkBytes = kSlotsPerChunk * kSlotBytes;
  Chunk chunk;
  absl::StatusOr<Mapping> memory = MapAnonymous(kChunkBytes);
  if (!memory.ok()) return memory.status();
  chunk.memory = *std::move(memory);
  absl::StatusOr<MemoryRegion> region = Register(*device_, chunk.memory.data(), kChunkBytes, 0, "messages");
  if (!region.ok()) return region.status();
  chunk.region = *std::move(region);
  chunks_.push_back(std::move(chunk));
  // The first of the chunk on top.
  for (size_t i = chunks_.size() * kSlotsPerChunk; i > (chunks_.size() - 1) * kSlotsPerChunk; --i) {
    free_.push_back(static_cast<uint32_t>(i - 1));
  }
  return absl::OkStatus();
}

uint32_t MessagePool::Take() {
  if (free_.empty() && !Grow().ok()) return kNone;
  const uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

absl::Status MessagePool::Reserve(size_t slots) {
  while (free_.size() < slots) {
    if (absl::Status status = Grow(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace farlook::rdma::verbs
