#include "client/reads/flight.h"

#include <utility>

#include "client/memory/buffer_pool.h"

namespace farlook::client {

// Adds a free flight.
Flight* FlightPool::Grow() {
  constexpr size_t kInBuffer = BufferPool::kChunkBytes / 2 / ReadBuffer::kOwnBytes;
  if (flights_.size() == memory_.size() * kInBuffer) {
    auto buffer = endpoint_->Allocate(kInBuffer * ReadBuffer::kOwnBytes, /*readable_by_peers=*/false);
    if (!buffer.ok()) return nullptr;
    memory_.push_back(*std::move(buffer));
  }
  Flight& flight = flights_.emplace_back();
  flight.own = memory_.back()->bytes().data() + (flights_.size() - 1) % kInBuffer * ReadBuffer::kOwnBytes;
  return &flight;
}

uint64_t FlightPool::memory_bytes() const {
  uint64_t bytes = flights_.size() * sizeof(Flight);
  for (const auto& buffer : memory_) bytes += buffer->bytes().size();
  return bytes;
}

}  // namespace farlook::client
