#include "rdma/shm/peer_memory.h"

#include <utility>

namespace farlook::rdma::shm {

absl::Status PeerMemory::AddOffer(int fd, uint32_t rkey, uint64_t bytes, bool writable) {
  if (SlotOf(rkey) < kMaxBuffers) return absl::InvalidArgumentError("an offer with the key of a buffer");
  return Add(fd, rkey, bytes, writable, writable ? Sealing::kFixedSize : Sealing::kReadOnly);
}

absl::Status PeerMemory::AddBuffer(int fd, uint32_t rkey, uint64_t bytes) {
  if (SlotOf(rkey) >= kMaxBuffers) return absl::InvalidArgumentError("a buffer with the key of an offer");
  if (bytes > kMaxBufferBytes || buffer_bytes_ > kMaxBufferBytes - bytes) {
    return absl::InvalidArgumentError("the peer registers more memory than a connection may");
  }
  // Nobody punches holes into what is sealed so, and only then its pages are counted.
  if (absl::Status status = CheckSealed(fd, Sealing::kReadOnly, bytes); !status.ok()) return status;
  if (absl::Status status = CheckPopulated(fd); !status.ok()) return status;
  if (absl::Status status = Add(fd, rkey, bytes, /*writable=*/false, Sealing::kReadOnly); !status.ok()) return status;
  buffer_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status PeerMemory::Add(int fd, uint32_t rkey, uint64_t bytes, bool writable, Sealing sealing) {
  const uint32_t slot = SlotOf(rkey);
  if (ranges_[slot].bytes != 0) return absl::InvalidArgumentError("a key that is in use");
  if (rkey == 0 || bytes == 0) return absl::InvalidArgumentError("an empty range or key");
  if (absl::Status status = CheckSealed(fd, sealing, bytes); !status.ok()) return status;
  absl::StatusOr<Mapping> mapping = Map(fd, bytes, writable);
  if (!mapping.ok()) return mapping.status();
  ranges_[slot].base = mapping->data();
  ranges_[slot].bytes = bytes;
  ranges_[slot].rkey = rkey;
  ranges_[slot].writable = writable;
  mappings_[slot] = *std::move(mapping);
  return absl::OkStatus();
}

Mapping PeerMemory::RemoveBuffer(uint32_t rkey) {
  const uint32_t slot = SlotOf(rkey);
  if (slot >= kMaxBuffers || rkey == 0 || ranges_[slot].rkey != rkey) return {};
  buffer_bytes_ -= ranges_[slot].bytes;
  ranges_[slot] = Range();
  return std::exchange(mappings_[slot], {});
}

void PeerMemory::Clear(absl::FunctionRef<void(Mapping)> unmap) {
  for (Range& range : ranges_) range = Range();
  for (Mapping& mapping : mappings_) {
    if (mapping.ok()) unmap(std::exchange(mapping, {}));
  }
  buffer_bytes_ = 0;
}

}  // namespace farlook::rdma::shm
