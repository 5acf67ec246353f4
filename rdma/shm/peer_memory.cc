#include "rdma/shm/peer_memory.h"

#include <utility>

namespace farlook::rdma::shm {

absl::Status PeerMemory::AddOffer(int fd, uint32_t rkey, uint64_t bytes, bool writable, uint32_t user) {
  if (SlotOf(rkey) < kMaxBuffers) return absl::InvalidArgumentError("an offer with the key of a buffer");
  if (absl::Status status = CheckKey(rkey, bytes); !status.ok()) return status;
  absl::Status checked = CheckSealed(fd, writable ? Sealing::kFixedSize : Sealing::kReadOnly, bytes);
  if (!checked.ok() && !writable) checked = CheckLasting(fd, user, bytes);
  if (!checked.ok()) return checked;
  absl::StatusOr<std::shared_ptr<const Mapping>> mapping = MapOnce(fd, bytes, writable);
  if (!mapping.ok()) return mapping.status();
  Add(**mapping, rkey, bytes, writable);
  offers_[SlotOf(rkey) - kMaxBuffers] = *std::move(mapping);
  return absl::OkStatus();
}

absl::Status PeerMemory::AddBuffer(int fd, uint32_t rkey, uint64_t bytes) {
  if (SlotOf(rkey) >= kMaxBuffers) return absl::InvalidArgumentError("a buffer with the key of an offer");
  if (bytes > kMaxBufferBytes || buffer_bytes_ > kMaxBufferBytes - bytes) {
    return absl::InvalidArgumentError("the peer registers more memory than a connection may");
  }
  if (absl::Status status = CheckKey(rkey, bytes); !status.ok()) return status;
  if (absl::Status status = CheckSealed(fd, Sealing::kReadOnly, bytes); !status.ok()) return status;
  // Memory with these seals can get no new holes: counting its pages once is enough.
  if (absl::Status status = CheckPopulated(fd); !status.ok()) return status;
  absl::StatusOr<Mapping> mapping = Map(fd, bytes, /*writable=*/false);
  if (!mapping.ok()) return mapping.status();
  Add(*mapping, rkey, bytes, /*writable=*/false);
  buffers_[SlotOf(rkey)] = *std::move(mapping);
  buffer_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status PeerMemory::CheckKey(uint32_t rkey, uint64_t bytes) const {
  if (ranges_[SlotOf(rkey)].bytes != 0) return absl::InvalidArgumentError("a key that is in use");
  if (rkey == 0 || bytes == 0) return absl::InvalidArgumentError("an empty range or key");
  return absl::OkStatus();
}

void PeerMemory::Add(const Mapping& mapping, uint32_t rkey, uint64_t bytes, bool writable) {
  Range& range = ranges_[SlotOf(rkey)];
  range.base = mapping.data();
  range.bytes = bytes;
  range.rkey = rkey;
  range.writable = writable;
}

Mapping PeerMemory::RemoveBuffer(uint32_t rkey) {
  const uint32_t slot = SlotOf(rkey);
  if (slot >= kMaxBuffers || rkey == 0 || ranges_[slot].rkey != rkey) return {};
  buffer_bytes_ -= ranges_[slot].bytes;
  ranges_[slot] = Range();
  return std::exchange(buffers_[slot], {});
}

void PeerMemory::Clear(absl::FunctionRef<void(Mapping)> unmap) {
  for (Range& range : ranges_) range = Range();
  for (Mapping& mapping : buffers_) {
    if (mapping.ok()) unmap(std::exchange(mapping, {}));
  }
  offers_ = {};
  buffer_bytes_ = 0;
}

}  // namespace farlook::rdma::shm
