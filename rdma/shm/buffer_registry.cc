#include "rdma/shm/buffer_registry.h"

#include "absl/strings/str_cat.h"

namespace farlook::rdma::shm {

absl::StatusOr<uint32_t> BufferRegistry::Add(int fd, uint64_t bytes) {
  if (bytes > kMaxBufferBytes || total_bytes_ > kMaxBufferBytes - bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("readable buffers of one endpoint may have ", kMaxBufferBytes,
                                                     " bytes together; ", total_bytes_, " are in use, ", bytes,
                                                     " more were asked for"));
  }
  for (uint32_t slot = 0; slot < kMaxBuffers; ++slot) {
    Entry& entry = entries_[slot];
    if (entry.rkey != 0) continue;
    // Keys repeat after 2^26 registrations; 0 is none.
    generation_ = (generation_ + 1) % (UINT32_MAX / kRangeSlots);
    entry.fd = fd;
    entry.bytes = bytes;
    entry.rkey = (generation_ + 1) * kRangeSlots + slot;
    total_bytes_ += bytes;
    return entry.rkey;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("an endpoint may have ", kMaxBuffers, " readable buffers; use fewer and larger ones"));
}

void BufferRegistry::Remove(uint32_t rkey) {
  for (Entry& entry : entries_) {
    if (entry.rkey != rkey) continue;
    total_bytes_ -= entry.bytes;
    entry = Entry();
  }
}

}  // namespace farlook::rdma::shm
