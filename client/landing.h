// Where the bytes of one READ go: to the flight's own memory (a bucket, a small item), to a piece of the pool (a larger
// item), or, where the transport can or it is registered, straight to the caller's memory (a large value): only the
// item's head is read elsewhere then, so that the checksum can be verified over both.
#ifndef FARLOOK_CLIENT_LANDING_H_
#define FARLOOK_CLIENT_LANDING_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/buffer_pool.h"
#include "client/operation.h"
#include "client/user_memory.h"
#include "kv/lookup.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The memory belongs to the transport from Post() until all that it posted has completed.
class Landing {
 public:
  static constexpr uint32_t kOwnBytes = 512;  // of a flight's own memory

  // In the flight's own memory. REQUIRES bytes <= kOwnBytes and !large().
  void PlaceSmall(char* own, uint32_t bytes) { to_[0] = {own, bytes}; }
  // REQUIRES PlaceSmall().
  const rdma::Sge& small() const { return to_[0]; }
  // Wherever it is best for what `lookup` wants. False: the pool is used up; again when a piece came back.
  // RESOURCE_EXHAUSTED: there is no memory for it.
  absl::StatusOr<bool> PlaceLarge(const kv::Lookup& lookup, Operation* operation, char* own,
                                  const rdma::Capabilities& capabilities, const UserMemory& user_memory,
                                  BufferPool* pool);
  // Whether the pool is still used up for what PlaceLarge() wanted.
  bool Waits(const BufferPool& pool) const { return pool.UsedUpFor(to_[0].bytes); }

  // Posts what is not posted yet of the READ of `address`; counts the work requests in `*pending`. False: not all of
  // it found room.
  bool Post(rdma::Connection* connection, uint64_t wr_id, uint64_t address, uint32_t rkey, uint32_t* pending) {
    if (large_) [[unlikely]]
      return PostLarge(connection, wr_id, address, rkey, pending);
    if (!connection->PostRead(wr_id, {&to_[0], 1}, address, rkey)) return false;
    *pending = 1;
    return true;
  }

  // More than one piece of the flight's own memory: there is something to Release().
  bool large() const { return large_; }
  // REQUIRES large().
  bool whole_posted() const { return posted_bytes_ == bytes(); }
  // Part of it is the caller's memory.
  bool direct() const { return direct_; }

  // Once it is read: all of it; or the item's head, and what lies in the caller's memory, claiming the length that was
  // wanted, since the lookup insists on it. The item ends before what was not read.
  absl::string_view head() const { return {to_[0].data, to_[0].bytes}; }
  absl::string_view rest(uint32_t wanted_bytes) const { return {to_[1].data, wanted_bytes - to_[0].bytes}; }
  // Whether what did not fit in the caller's memory may belong to the item: head and value disagree about the length,
  // as far as a head that nothing was verified of can tell.
  bool CutShort(uint32_t wanted_bytes) const;
  // The next PlaceLarge() leaves the caller's memory alone.
  void KeepWhole() { whole_ = true; }

  // What was placed is not needed any more.
  void Release();

 private:
  static constexpr uint32_t kMinDirectBytes = 512;  // shorter values are copied: that is cheaper than two pieces
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
  std::shared_ptr<rdma::Buffer> registered_;  // where to_[1] lies, unless it may lie anywhere
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LANDING_H_
