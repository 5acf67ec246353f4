#include "rdma/verbs/queues/message_pool.h"

#include <algorithm>
#include <utility>

namespace farlook::rdma::verbs {
namespace {

constexpr size_t kChunkBytes = kSlotsPerChunk * kSlotBytes;

}  // namespace

absl::Status MessagePool::Grow() {
  Chunk chunk;
  absl::StatusOr<Mapping> memory = MapAnonymous(kChunkBytes);
  if (!memory.ok()) return memory.status();
  chunk.memory = *std::move(memory);
  absl::StatusOr<MemoryRegion> region = Register(*device_, chunk.memory.data(), kChunkBytes, 0, "messages");
  if (!region.ok()) return region.status();
  chunk.region = *std::move(region);
  chunk.free = kSlotsPerChunk;
  auto place = std::find_if(chunks_.begin(), chunks_.end(), [](const Chunk& c) { return c.memory.data() == nullptr; });
  if (place == chunks_.end()) place = chunks_.emplace(place);
  *place = std::move(chunk);
  // The chunk's first slot is on top.
  const auto first = static_cast<uint32_t>((place - chunks_.begin()) * kSlotsPerChunk);
  for (uint32_t slot = first + kSlotsPerChunk; slot > first; --slot) free_.push_back(slot - 1);
  bytes_ += kChunkBytes;
  return absl::OkStatus();
}

uint32_t MessagePool::Take() {
  if (free_.empty() && !Grow().ok()) return kNone;
  const uint32_t slot = free_.back();
  free_.pop_back();
  --chunks_[slot / kSlotsPerChunk].free;
  return slot;
}

void MessagePool::Trim(bool none_used) {
  const auto unused = [](const Chunk& chunk) { return chunk.free == kSlotsPerChunk; };
  const auto count = std::count_if(chunks_.begin(), chunks_.end(), unused);
  auto excess = none_used ? count - 1 : count / 2;
  if (excess <= 0) return;
  // From the last, so that used slots gather at the first.
  for (auto chunk = chunks_.rbegin(); excess > 0; ++chunk) {
    if (!unused(*chunk)) continue;
    *chunk = Chunk();
    bytes_ -= kChunkBytes;
    --excess;
  }
  std::erase_if(free_, [this](uint32_t slot) { return chunks_[slot / kSlotsPerChunk].free == 0; });
  while (chunks_.back().memory.data() == nullptr) chunks_.pop_back();
}

absl::Status MessagePool::Reserve(size_t slots) {
  while (free_.size() < slots) {
    if (absl::Status status = Grow(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace farlook::rdma::verbs
