// The ranges of the peer's memory that one connection can name by rkey, and their mappings in this process.
#ifndef FARLOOK_RDMA_SHM_PEER_MEMORY_H_
#define FARLOOK_RDMA_SHM_PEER_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

// An rkey is a generation above a slot. Slots below kMaxBuffers belong to buffers, the others to offers.
constexpr uint32_t SlotOf(uint32_t rkey) { return rkey % kRangeSlots; }

class PeerMemory {
 public:
  // Returns the mapping of `bytes` at `offset` of the range. Returns null unless `rkey` names a range, the bytes lie in
  // it, the offset is a multiple of 8, and the range allows `access`. REQUIRES: bytes > 0.
  char* Find(uint32_t rkey, uint64_t offset, uint64_t bytes, Access access) const {
    const Range& range = ranges_[SlotOf(rkey)];  // an empty one has no bytes
    if (range.rkey != rkey || bytes > range.bytes || offset > range.bytes - bytes || offset % 8 != 0 ||
        (access == Access::kRemoteReadAtomic && !range.writable)) {
      return nullptr;
    }
    return range.base + offset;
  }
  // Returns the range that `rkey` names, or {null, 0} if it names none.
  absl::Span<const char> Whole(uint32_t rkey) const {
    const Range& range = ranges_[SlotOf(rkey)];
    return range.rkey == rkey ? absl::MakeConstSpan(range.base, range.bytes) : absl::Span<const char>();
  }
  // Returns whether that range is for atomics.
  bool ForAtomics(uint32_t rkey) const { return ranges_[SlotOf(rkey)].writable; }
  bool Knows(uint32_t rkey) const { return ranges_[SlotOf(rkey)].rkey == rkey; }

  // Checks, then maps memory of an untrusted peer. INVALID_ARGUMENT: the peer broke the protocol. RESOURCE_EXHAUSTED:
  // this process has no address space left.
  // `user` is the peer's: its memory may lie in a file of that user, if this process only reads it.
  absl::Status AddOffer(int fd, uint32_t rkey, uint64_t bytes, bool writable, uint32_t user);
  // The same, but a buffer must also have all its pages and keep them: reading a hole would allocate a page, which this
  // process would be charged for.
  absl::Status AddBuffer(int fd, uint32_t rkey, uint64_t bytes);

  // Returns the mapping, to be unmapped; an empty one if the key is unknown. REQUIRES: no posted work uses the range.
  Mapping RemoveBuffer(uint32_t rkey);
  // Hands over the mapping of each buffer. REQUIRES as above.
  void Clear(absl::FunctionRef<void(Mapping)> unmap);

 private:
  struct Range {
    char* base = nullptr;
    uint64_t bytes = 0;
    uint32_t rkey = 0;
    bool writable = false;
  };

  // Checks whether a range of this key may be added.
  absl::Status CheckKey(uint32_t rkey, uint64_t bytes) const;
  void Add(const Mapping& mapping, uint32_t rkey, uint64_t bytes, bool writable);

  std::array<Range, kRangeSlots> ranges_;
  std::array<Mapping, kMaxBuffers> buffers_;
  // Shared with the other connections of this process: a server's table may fill much of an address space.
  std::array<std::shared_ptr<const Mapping>, kMaxOffers> offers_;
  uint64_t buffer_bytes_ = 0;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_PEER_MEMORY_H_
