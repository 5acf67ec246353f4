#include "rdma/verbs/endpoint_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "rdma/verbs/envelope.h"

namespace farlook::rdma::verbs {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

class EndpointMemory::OwnBuffer final : public Buffer {
 public:
  OwnBuffer(EndpointMemory* memory, Mapping mapping, bool readable)
      : memory_(memory), mapping_(std::move(mapping)), readable_(readable) {
    bytes_ = absl::MakeSpan(mapping_.data(), mapping_.bytes());
    if (readable_) remote_ = {reinterpret_cast<uintptr_t>(mapping_.data()), mapping_.bytes(), 0};
    memory_->buffers_.push_back(this);
  }
  ~OwnBuffer() override {
    memory_->local_.Remove(mapping_.data());
    std::erase(memory_->buffers_, this);
  }

  absl::Status Register();
  void Unregister() {
    region_.reset();
    remote_.rkey = 0;
  }

 private:
  EndpointMemory* const memory_;
  const Mapping mapping_;
  const bool readable_;
  MemoryRegion region_;  // goes before the memory
};

absl::Status EndpointMemory::OwnBuffer::Register() {
  // See bounce.h. A server's buffers stay closed, whatever the device.
  const bool iwarp = memory_->device_->traits().iwarp;
  const bool opened = iwarp && memory_->offers_ == nullptr;
  const int access = (readable_ ? IBV_ACCESS_REMOTE_READ : 0) | (opened ? IBV_ACCESS_REMOTE_WRITE : 0);
  absl::StatusOr<MemoryRegion> region =
      verbs::Register(*memory_->device_, mapping_.data(), mapping_.bytes(), access, "a buffer");
  if (!region.ok()) return region.status();
  region_ = *std::move(region);
  LocalMemory::Range range;
  range.begin = mapping_.data();
  range.end = range.begin + mapping_.bytes();
  range.lkey = region_->lkey;
  range.lands_reads = !iwarp || opened;
  memory_->local_.Add(range);
  if (readable_) remote_.rkey = region_->rkey;
  return absl::OkStatus();
}

EndpointMemory::EndpointMemory() = default;
EndpointMemory::~EndpointMemory() = default;

absl::Status EndpointMemory::Begin(const Device* device, const Offers* offers) {
  device_ = device;
  offers_ = offers;
  if (probe_memory_.data() == nullptr) {
    absl::StatusOr<Mapping> memory = MapAnonymous(2 * kProbeAlignment);
    if (!memory.ok()) return memory.status();
    probe_memory_ = *std::move(memory);
  }
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
  for (OwnBuffer* buffer : buffers_) {
    if (absl::Status status = buffer->Register(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void EndpointMemory::End() {
  for (OwnBuffer* buffer : buffers_) buffer->Unregister();
  probe_landing_.reset();
  probe_word_.reset();
  local_.Clear();
  known_offers_ = 0;
  offers_ = nullptr;
  device_ = nullptr;
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
  if (device_ == nullptr) return absl::UnavailableError("no memory is registered while the RDMA device is gone");
  absl::StatusOr<Mapping> mapping = MapAnonymous(bytes);
  if (!mapping.ok()) return mapping.status();
  // Registering touches every page: there are fewer large ones.
  if (bytes >= kHugePageBytes) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  auto buffer = std::make_unique<OwnBuffer>(this, *std::move(mapping), readable_by_peers);
  if (absl::Status status = buffer->Register(); !status.ok()) return status;
  return buffer;
}

void EndpointMemory::AddOffers() {
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

}  // namespace farlook::rdma::verbs
