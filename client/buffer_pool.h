// Registered memory for what is read from a server or offered to it. Registering costs a system call, so pieces are cut
// from chunks that stay; a chunk whose pieces are all back may be cut to another size. What does not fit, because it is
// larger than a chunk or because the chunks are used up, gets memory of its own, given back at once when its user is
// done: what stays is bounded, what is under way is not refused. (Gets of many values at once wait rather: UsedUpFor.)
#ifndef FARLOOK_CLIENT_BUFFER_POOL_H_
#define FARLOOK_CLIENT_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. Outlives its pieces; its endpoint outlives it.
class BufferPool {
 private:
  struct Chunk;

 public:
  static constexpr size_t kChunkBytes = 64 << 10;
  static constexpr size_t kMinPieceBytes = 1 << 10;

  // A piece of memory; gives itself back. Do not destroy it while work that names it is posted.
  class Piece {
   public:
    Piece() = default;
    Piece(Piece&& other) noexcept { *this = std::move(other); }
    Piece& operator=(Piece&& other) noexcept;
    ~Piece() { Release(); }

    // A piece of another's memory, `buffer`, which it holds while it exists.
    Piece(std::shared_ptr<rdma::Buffer> buffer, char* data) : own_(std::move(buffer)), data_(data) {}

    // Null for an empty piece. 8-byte aligned.
    char* data() const { return data_; }
    // Where peers READ it, in a pool that is readable by them.
    uint64_t remote_address() const;
    uint32_t rkey() const;
    void Release();

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;         // null: it is of no pool
    Chunk* chunk_ = nullptr;             // the piece was cut from this, or
    std::shared_ptr<rdma::Buffer> own_;  // has this for itself, or, without a pool, is a part of it
    char* data_ = nullptr;
  };

  // Keeps at most `max_idle_bytes`, in whole chunks.
  BufferPool(rdma::Endpoint* endpoint, bool readable_by_peers, size_t max_idle_bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`; what they hold is undefined. RESOURCE_EXHAUSTED as from Endpoint::Allocate.
  absl::StatusOr<Piece> Take(size_t bytes);

  // Whether Take(bytes) would have to allocate memory of its own for what fits into chunks, all of which are in use.
  // A caller that waits until another piece comes back saves that.
  bool UsedUpFor(size_t bytes) const;

  // All that is allocated now.
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  rdma::Endpoint* const endpoint_;
  const bool readable_by_peers_;
  const size_t max_chunks_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  uint64_t memory_bytes_ = 0;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_BUFFER_POOL_H_
