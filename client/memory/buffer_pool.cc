#include "client/memory/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace farlook::client {

// One allocation, cut into pieces of one size.
struct BufferPool::Chunk {
  std::unique_ptr<rdma::Buffer> buffer;
  size_t piece_bytes = 0;
  uint64_t free = 0;  // one bit for each piece

  static uint64_t AllFree(size_t piece_bytes) {
    const size_t pieces = kChunkBytes / piece_bytes;
    return pieces == 64 ? ~uint64_t{0} : (uint64_t{1} << pieces) - 1;
  }
  static_assert(kChunkBytes / kMinPieceBytes <= 64, "a chunk's free pieces are bits of one word");

  bool idle() const { return free == AllFree(piece_bytes); }
  void Cut(size_t bytes) {
    piece_bytes = bytes;
    free = AllFree(bytes);
  }
};

BufferPool::BufferPool(rdma::Endpoint* endpoint, bool readable_by_peers, size_t max_idle_bytes)
    : endpoint_(endpoint), readable_by_peers_(readable_by_peers), max_chunks_(max_idle_bytes / kChunkBytes) {}

BufferPool::~BufferPool() = default;

absl::StatusOr<BufferPool::Piece> BufferPool::Take(size_t bytes) {
  Piece piece;
  piece.pool_ = this;
  const size_t piece_bytes = std::bit_ceil(std::max(bytes, kMinPieceBytes));
  if (piece_bytes <= kChunkBytes) {
    Chunk* chunk = nullptr;
    for (const auto& candidate : chunks_) {
      if (candidate->piece_bytes == piece_bytes && candidate->free != 0) {
        chunk = candidate.get();
        break;
      }
      if (candidate->idle()) chunk = candidate.get();
    }
    if (chunk == nullptr && chunks_.size() < max_chunks_) {
      auto buffer = endpoint_->Allocate(kChunkBytes, readable_by_peers_);
      if (!buffer.ok()) return buffer.status();
      chunks_.push_back(std::make_unique<Chunk>());
      chunk = chunks_.back().get();
      chunk->buffer = *std::move(buffer);
      chunk->Cut(piece_bytes);
      memory_bytes_ += chunk->buffer->bytes().size();
    }
    if (chunk != nullptr) {
      if (chunk->piece_bytes != piece_bytes) chunk->Cut(piece_bytes);
      const int i = std::countr_zero(chunk->free);
      chunk->free &= chunk->free - 1;
      piece.chunk_ = chunk;
      piece.data_ = chunk->buffer->bytes().data() + static_cast<size_t>(i) * piece_bytes;
      return piece;
    }
  }
  auto buffer = endpoint_->Allocate(bytes, readable_by_peers_);
  if (!buffer.ok()) return buffer.status();
  piece.own_ = *std::move(buffer);
  piece.data_ = piece.own_->bytes().data();
  memory_bytes_ += piece.own_->bytes().size();
  return piece;
}

bool BufferPool::UsedUpFor(size_t bytes) const {
  const size_t piece_bytes = std::bit_ceil(std::max(bytes, kMinPieceBytes));
  return piece_bytes <= kChunkBytes && max_chunks_ > 0 && chunks_.size() == max_chunks_ &&
         std::none_of(chunks_.begin(), chunks_.end(), [piece_bytes](const auto& chunk) {
           return chunk->idle() || (chunk->piece_bytes == piece_bytes && chunk->free != 0);
         });
}

BufferPool::Piece& BufferPool::Piece::operator=(Piece&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::exchange(other.pool_, nullptr);
  chunk_ = std::exchange(other.chunk_, nullptr);
  own_ = std::move(other.own_);
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void BufferPool::Piece::Release() {
  if (data_ == nullptr) return;
  if (chunk_ != nullptr) {
    const size_t i = static_cast<size_t>(data_ - chunk_->buffer->bytes().data()) / chunk_->piece_bytes;
    chunk_->free |= uint64_t{1} << i;
  } else {
    if (pool_ != nullptr) pool_->memory_bytes_ -= own_->bytes().size();
    own_.reset();
  }
  data_ = nullptr;
  chunk_ = nullptr;
}

uint64_t BufferPool::Piece::remote_address() const {
  const rdma::Buffer& buffer = chunk_ != nullptr ? *chunk_->buffer : *own_;
  return buffer.remote().address + static_cast<uint64_t>(data_ - buffer.bytes().data());
}

uint32_t BufferPool::Piece::rkey() const { return (chunk_ != nullptr ? *chunk_->buffer : *own_).remote().rkey; }

}  // namespace farlook::client
