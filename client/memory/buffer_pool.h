// Registered memory for what is read from a server or offered to it. Registering costs a system call, so pieces are cut
// from chunks that are kept. A chunk whose pieces are all back may be cut to another size. If a piece is larger than a
// chunk, or the chunks are used up, it gets memory of its own, which is released after use. So idle memory is bounded,
// and requests are not refused. (Gets of many values wait instead: UsedUpFor.)
#ifndef FARLOOK_CLIENT_MEMORY_BUFFER_POOL_H_
#define FARLOOK_CLIENT_MEMORY_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The pool outlives its pieces; its endpoint outlives the pool.
class BufferPool {
 private:
  struct Chunk;

 public:
  static constexpr size_t kChunkBytes = 64 << 10;
  static constexpr size_t kMinPieceBytes = 1 << 10;

  // A piece of memory, returned on destruction. Do not destroy it while posted work requests name it.
  class Piece {
   public:
    Piece() = default;
    Piece(Piece&& other) noexcept { *this = std::move(other); }
    Piece& operator=(Piece&& other) noexcept;
    ~Piece() { Release(); }

    // A piece of another owner's memory, `buffer`, which it keeps alive.
    Piece(std::shared_ptr<rdma::Buffer> buffer, char* data) : own_(std::move(buffer)), data_(data) {}

    // Returns null for an empty piece. 8-byte aligned.
    char* data() const { return data_; }
    // The address for READs of peers, in a pool that is readable by them.
    uint64_t remote_address() const;
    uint32_t rkey() const;
    void Release();

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;         // null: it belongs to no pool
    Chunk* chunk_ = nullptr;             // the chunk that the piece was cut from, or null
    std::shared_ptr<rdma::Buffer> own_;  // its own memory, or, without a pool, the memory that it is a part of
    char* data_ = nullptr;
  };

  // Keeps at most `max_idle_bytes`, in whole chunks.
  BufferPool(rdma::Endpoint* endpoint, bool readable_by_peers, size_t max_idle_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a piece of at least `bytes` with undefined contents. RESOURCE_EXHAUSTED as from Endpoint::Allocate.
  absl::StatusOr<Piece> Take(size_t bytes);

  // Returns whether Take(bytes) would have to allocate separate memory for a size that fits in chunks, since all are in
  // use. A caller that waits until a piece is returned avoids that.
  bool UsedUpFor(size_t bytes) const;

  // All memory that is allocated now.
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  rdma::Endpoint* const endpoint_;
  const bool readable_by_peers_;
  const size_t max_chunks_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint64_t memory_bytes_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_MEMORY_BUFFER_POOL_H_
