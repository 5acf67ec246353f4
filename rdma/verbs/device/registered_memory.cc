#include "rdma/verbs/device/registered_memory.h"

#include <utility>

#include "rdma/verbs/handshake/envelope.h"

namespace farlook::rdma::verbs {

absl::Status RegisteredMemory::Begin() {
  absl::StatusOr<Mapping> memory = MapAnonymous(2 * kProbeAlignment);
  if (!memory.ok()) return memory.status();
  probe_memory_ = *std::move(memory);
  char* const buffer = probe_memory_.data() + kProbeAlignment;
  absl::StatusOr<MemoryRegion> word =
      Register(*device_, probe_memory_.data(), kProbeAlignment, IBV_ACCESS_REMOTE_READ, "a word for probes");
  if (!word.ok()) return word.status();
  probe_word_ = *std::move(word);
  // On iWARP a peer can write where a probe is fetched to; this side never reads that.
  absl::StatusOr<MemoryRegion> other =
      Register(*device_, buffer, kProbeAlignment, device_->traits().iwarp ? IBV_ACCESS_REMOTE_WRITE : 0, "probes");
  if (!other.ok()) return other.status();
  probe_buffer_ = *std::move(other);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> RegisteredMemory::Add(char* data, size_t bytes, bool readable_by_peers) {
  // See bounce.h. A server's buffers are never writable for peers, whatever the device.
  const bool iwarp = device_->traits().iwarp;
  const bool opened = iwarp && offers_ == nullptr;
  const int access = (readable_by_peers ? IBV_ACCESS_REMOTE_READ : 0) | (opened ? IBV_ACCESS_REMOTE_WRITE : 0);
  absl::StatusOr<MemoryRegion> region = Register(*device_, data, bytes, access, "a buffer");
  if (!region.ok()) return region.status();
  const uint32_t rkey = readable_by_peers ? (*region)->rkey : 0;
  LocalMemory::Range range;
  range.begin = data;
  range.end = data + bytes;
  range.lkey = (*region)->lkey;
  range.lands_reads = !iwarp || opened;
  local_.Add(range);
  buffers_[data] = *std::move(region);
  return rkey;
}

void RegisteredMemory::Remove(const char* data) {
  local_.Remove(data);
  buffers_.erase(data);
}

void RegisteredMemory::AddOffers() {
  for (; known_offers_ < offers_->offers.size(); ++known_offers_) {
    const Offers::Offer& offer = offers_->offers[known_offers_];
    LocalMemory::Range range;
    range.begin = offer.base;
    range.end = offer.base + offer.bytes;
    range.lkey = offer.region->lkey;
    range.lands_reads = !device_->traits().iwarp;
    local_.Add(range);
  }
}

RemoteRange RegisteredMemory::probe_word() const {
  RemoteRange word;
  word.address = reinterpret_cast<uintptr_t>(probe_memory_.data());
  word.bytes = sizeof(uint64_t);
  word.rkey = probe_word_->rkey;
  return word;
}

ibv_sge RegisteredMemory::probe_buffer() const {
  return {reinterpret_cast<uintptr_t>(probe_memory_.data() + kProbeAlignment), sizeof(uint64_t), probe_buffer_->lkey};
}

}  // namespace farlook::rdma::verbs
