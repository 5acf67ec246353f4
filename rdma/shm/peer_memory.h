// The ranges of the peer's memory that one connection can name by rkey, and where this process maps them.
#ifndef FARLOOK_RDMA_SHM_PEER_MEMORY_H_
#define FARLOOK_RDMA_SHM_PEER_MEMORY_H_

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

// An rkey is a generation above a slot. Slots below kMaxBuffers are of buffers, the others of offers.
constexpr uint32_t SlotOf(uint32_t rkey) { return rkey % kRangeSlots; }

class PeerMemory {
 public:
  // Where `bytes` at `offset` of the range are mapped; null unless `rkey` names a range, the bytes lie in it, the
  // offset is a multiple of 8, and the range allows `access`. REQUIRES: bytes > 0.
  char* Find(uint32_t rkey, uint64_t offset, uint64_t bytes, Access access) const {
    const Range& range = ranges_[SlotOf(rkey)];  // an empty one has no bytes
    if (range.rkey != rkey || bytes > range.bytes || offset > range.bytes - bytes || offset % 8 != 0 ||
        (access == Access::kRemoteReadAtomic && !range.writable)) {
      return nullptr;
    }
    return range.base + offset;
  }
  // The first byte of the range that `rkey` names, and its length; {null, 0} when it names none.
  absl::Span<const char> Whole(uint32_t rkey) const {
    const Range& range = ranges_[SlotOf(rkey)];
    return range.rkey == rkey ? absl::MakeConstSpan(range.base, range.bytes) : absl::Span<const char>();
  }
  // Whether that range is for atomics.
  bool ForAtomics(uint32_t rkey) const { return ranges_[SlotOf(rkey)].writable; }
  bool Knows(uint32_t rkey) const { return ranges_[SlotOf(rkey)].rkey == rkey; }

  // Maps memory of a peer that is not trusted: checks first. INVALID_ARGUMENT or RESOURCE_EXHAUSTED; then the peer
  // broke the protocol, or this process has no address space left.
  absl::Status AddOffer(int fd, uint32_t rkey, uint64_t bytes, bool writable);
  // Besides, a buffer must have all its pages and keep them: reading a hole would allocate a page, which this process
  // would be charged for.
  absl::Status AddBuffer(int fd, uint32_t rkey, uint64_t bytes);

  // REQUIRES: no posted work uses the range. Where it was mapped, to be given back: nothing where the key is unknown.
  Mapping RemoveBuffer(uint32_t rkey);
  // REQUIRES as above. Hands over each mapping.
  void Clear(absl::FunctionRef<void(Mapping)> unmap);

 private:
  struct Range {
    char* base = nullptr;
    uint64_t bytes = 0;
    uint32_t rkey = 0;
    bool writable = false;
  };

  absl::Status Add(int fd, uint32_t rkey, uint64_t bytes, bool writable, Sealing sealing);

  std::array<Range, kRangeSlots> ranges_;
  std::array<Mapping, kRangeSlots> mappings_;
  uint64_t buffer_bytes_ = 0;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_PEER_MEMORY_H_
