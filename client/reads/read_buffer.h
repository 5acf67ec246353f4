// Destination of one READ. A bucket or a small item goes to the flight's own memory, a larger item to a piece of the
// pool. A large value goes to the caller's memory if the transport can or the memory is registered. Then only the
// item's head is read elsewhere, and the checksum is verified over both.
#ifndef FARLOOK_CLIENT_READS_READ_BUFFER_H_
#define FARLOOK_CLIENT_READS_READ_BUFFER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/user_memory.h"
#include "client/op/operation.h"
#include "kv/read/lookup.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The memory belongs to the transport from Post() until all that it posted has completed.
class ReadBuffer {
 public:
  static constexpr uint32_t kOwnBytes = 512;  // of a flight's own memory

  // Uses the flight's own memory. REQUIRES bytes <= kOwnBytes and !large().
  void PlaceSmall(char* own, uint32_t bytes) { to_[0] = {own, bytes}; }
  // REQUIRES PlaceSmall().
  const rdma::Sge& small() const { return to_[0]; }
  // Chooses the best memory for what `lookup` wants. Returns false if the pool is used up: try again when a piece was
  // returned. RESOURCE_EXHAUSTED: there is no memory for it.
  absl::StatusOr<bool> PlaceLarge(const kv::Lookup& lookup, Operation* operation, char* own,
                                  const rdma::Capabilities& capabilities, const UserMemory& user_memory,
                                  BufferPool* pool);
  // Returns whether the pool is still used up for what PlaceLarge() wanted.
  bool Waits(const BufferPool& pool) const { return pool.UsedUpFor(to_[0].bytes); }

  // Posts the remaining work requests of the READ of `address`; counts them in `*pending`. Returns false if some found
  // no room.
  bool Post(rdma::Connection* connection, uint64_t wr_id, uint64_t address, uint32_t rkey, uint32_t* pending) {
    if (large_) [[unlikely]]
      return PostLarge(connection, wr_id, address, rkey, pending);
    if (!connection->PostRead(wr_id, {&to_[0], 1}, address, rkey)) return false;
    *pending = 1;
    return true;
  }

  // Returns whether it is more than one piece of the flight's own memory, so that Release() is needed.
  bool large() const { return large_; }
  // REQUIRES large().
  bool whole_posted() const { return posted_bytes_ == bytes(); }
  // Returns whether a part of it is the caller's memory.
  bool direct() const { return direct_; }

  // The result of the READ: all of it, or the item's head and the rest in the caller's memory. The rest claims the
  // wanted length, since the lookup insists on it; the item ends before the part that was not read.
  absl::string_view head() const { return {to_[0].data, to_[0].bytes}; }
  absl::string_view rest(uint32_t wanted_bytes) const { return {to_[1].data, wanted_bytes - to_[0].bytes}; }
  // Returns whether bytes that did not fit in the caller's memory may belong to the item: head and value disagree about
  // the length. The head is not verified yet.
  bool CutShort(uint32_t wanted_bytes) const;
  // Makes the next PlaceLarge() not use the caller's memory.
  void KeepWhole() { whole_ = true; }

  // Releases the memory that was placed.
  void Release();

 private:
  static constexpr uint32_t kMinDirectBytes = 512;  // shorter values are copied, which is cheaper than two pieces
  static constexpr uint32_t kMinStringBytes = 16
                                              << 10;  // shorter ones are copied to strings: resizing fills with zeros

  uint32_t bytes() const { return to_[0].bytes + to_[1].bytes; }
  absl::StatusOr<bool> PlaceDirect(uint32_t rest_bytes, Operation* operation, const UserMemory* user_memory);
  bool PostLarge(rdma::Connection* connection, uint64_t wr_id, uint64_t address, uint32_t rkey, uint32_t* pending);

  rdma::Sge to_[2] = {};  // in one place, or head and value
  uint32_t posted_bytes_ = 0;
  uint32_t piece_bytes_ = 0;
  bool large_ = false;
  bool direct_ = false;  // to_[1] is the caller's memory
  bool whole_ = false;   // not direct: the caller's memory was too short
  BufferPool::Piece piece_;
  std::shared_ptr<rdma::Buffer> registered_;  // the range of to_[1], unless any memory may be used
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_READ_BUFFER_H_
