#include "rdma/verbs/endpoint_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "rdma/verbs/envelope.h"

namespace farlook::rdma::verbs {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

class VerbsBuffer final : public Buffer {
 public:
  VerbsBuffer(LocalMemory* memory, shm::Mapping mapping, MemoryRegion region, bool readable)
      : memory_(memory), mapping_(std::move(mapping)), region_(std::move(region)) {
    bytes_ = absl::MakeSpan(mapping_.data(), mapping_.bytes());
    if (!readable) return;
    remote_.address = reinterpret_cast<uintptr_t>(mapping_.data());
    remote_.bytes = mapping_.bytes();
    remote_.rkey = region_->rkey;
  }
  ~VerbsBuffer() override { memory_->Remove(mapping_.data()); }

 private:
  LocalMemory* const memory_;
  const shm::Mapping mapping_;
  const MemoryRegion region_;  // goes before the memory
};

}  // namespace

absl::Status EndpointMemory::Begin() {
  absl::StatusOr<shm::Mapping> memory = shm::MapAnonymous(2 * kProbeAlignment);
  if (!memory.ok()) return memory.status();
  probe_memory_ = *std::move(memory);
  char* const landing = probe_memory_.data() + kProbeAlignment;
  absl::StatusOr<MemoryRegion> word =
      Register(*device_, probe_memory_.data(), kProbeAlignment, IBV_ACCESS_REMOTE_READ, "a word for probes");
  if (!word.ok()) return word.status();
  probe_word_ = *std::move(word);
  // On iWARP a peer can write where a probe lands; nobody looks there.
  absl::StatusOr<MemoryRegion> other =
      Register(*device_, landing, kProbeAlignment, device_->traits().iwarp ? IBV_ACCESS_REMOTE_WRITE : 0, "probes");
  if (!other.ok()) return other.status();
  probe_landing_ = *std::move(other);
  return absl::OkStatus();
}

RemoteRange EndpointMemory::probe_word() const {
  RemoteRange word;
  word.address = reinterpret_cast<uintptr_t>(probe_memory_.data());
  word.bytes = sizeof(uint64_t);
  word.rkey = probe_word_->rkey;
  return word;
}

ibv_sge EndpointMemory::probe_landing() const {
  return {reinterpret_cast<uintptr_t>(probe_memory_.data() + kProbeAlignment), sizeof(uint64_t), probe_landing_->lkey};
}

absl::StatusOr<std::unique_ptr<Buffer>> EndpointMemory::Allocate(size_t bytes, bool readable_by_peers) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of 0 bytes");
  absl::StatusOr<shm::Mapping> mapping = shm::MapAnonymous(bytes);
  if (!mapping.ok()) return mapping.status();
  // Registering touches every page: there are fewer large ones.
  if (bytes >= kHugePageBytes) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  // See bounce.h. A server's buffers stay closed, whatever the device.
  const bool iwarp = device_->traits().iwarp;
  const bool opened = iwarp && offers_ == nullptr;
  const int access = (readable_by_peers ? IBV_ACCESS_REMOTE_READ : 0) | (opened ? IBV_ACCESS_REMOTE_WRITE : 0);
  absl::StatusOr<MemoryRegion> region = Register(*device_, mapping->data(), mapping->bytes(), access, "a buffer");
  if (!region.ok()) return region.status();
  LocalMemory::Range range;
  range.begin = mapping->data();
  range.end = range.begin + mapping->bytes();
  range.lkey = (*region)->lkey;
  range.lands_reads = !iwarp || opened;
  local_.Add(range);
  return std::make_unique<VerbsBuffer>(&local_, *std::move(mapping), *std::move(region), readable_by_peers);
}

void EndpointMemory::AddOffers() {
  for (; known_offers_ < offers_->offers.size(); ++known_offers_) {
    const Offers::Offer& offer = offers_->offers[known_offers_];
    const char* begin = offer.base;
    for (const MemoryRegion& region : offer.regions) {
      LocalMemory::Range range;
      range.begin = begin;
      range.end = begin + region->length;
      range.lkey = region->lkey;
      range.lands_reads = !device_->traits().iwarp;
      local_.Add(range);
      begin += offer.stride_bytes;
    }
  }
}

}  // namespace farlook::rdma::verbs
