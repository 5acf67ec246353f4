// Intermediate memory for those READs of one connection whose destination the peer may not write to (iWARP).
//
// On iWARP the answer to a READ is a write by the peer, so its destination must be registered for remote writing. The
// memory that a server offers never is. So a server READs into this memory, a ring that belongs to one connection, and
// copies from here. A peer that writes unrequested bytes here harms only itself.
#ifndef FARLOOK_RDMA_VERBS_QUEUES_BOUNCE_H_
#define FARLOOK_RDMA_VERBS_QUEUES_BOUNCE_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/verbs/device/device.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

// Thread safety: none. The device must outlive it.
class Bounce {
 public:
  explicit Bounce(const Device* device) : device_(device) {}

  // Returns room for `bytes` (at most kBounceBytes), 64-byte aligned, until FreeOldest() frees it. Null: not now. The
  // first call registers the memory; `*status` is its error.
  char* Take(uint64_t bytes, absl::Status* status) {
    if (region_ == nullptr) {
      *status = Begin();
      if (!status->ok()) return nullptr;
    }
    const uint64_t rounded = (bytes + 63) & ~uint64_t{63};
    uint64_t begin = 0;
    uint64_t limit = kBounceBytes;  // end of the free room at `begin`
    if (!ends_.empty()) {
      begin = ends_.back();
      const uint64_t oldest = begins_.front();
      if (begin > oldest && begin + rounded > kBounceBytes) begin = 0;  // not enough before the end of the ring
      // Also true for a full ring: begin == oldest.
      if (begin <= oldest) limit = oldest;
    }
    if (begin + rounded > limit) return nullptr;
    ends_.push_back(begin + rounded);
    begins_.push_back(begin);
    return memory_.data() + begin;
  }

  // REQUIRES: something is taken.
  void FreeOldest() {
    ends_.pop_front();
    begins_.pop_front();
  }

  uint32_t lkey() const { return region_->lkey; }

 private:
  absl::Status Begin() {
    absl::StatusOr<Mapping> memory = MapAnonymous(kBounceBytes);
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    absl::StatusOr<MemoryRegion> region =
        Register(*device_, memory_.data(), kBounceBytes, IBV_ACCESS_REMOTE_WRITE, "what is pulled from a client");
    if (!region.ok()) return region.status();
    region_ = *std::move(region);
    return absl::OkStatus();
  }

  const Device* const device_;
  Mapping memory_;
  MemoryRegion region_;
  std::deque<uint64_t> begins_;  // of the pieces taken, oldest first
  std::deque<uint64_t> ends_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_BOUNCE_H_
