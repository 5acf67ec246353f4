#include "rdma/verbs/device/buffers.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"

namespace farlook::rdma::verbs {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

class Buffers::OwnBuffer final : public Buffer {
 public:
  // `mapping` holds the memory, or nothing if the memory is the user's.
  OwnBuffer(Buffers* buffers, Mapping mapping, absl::Span<char> memory, bool readable)
      : all_(buffers), mapping_(std::move(mapping)), readable_(readable) {
    bytes_ = memory;
    if (readable_) remote_ = {reinterpret_cast<uintptr_t>(memory.data()), memory.size(), 0};
    all_->buffers_.push_back(this);
  }
  ~OwnBuffer() override {
    if (all_->memory_ != nullptr) all_->memory_->Remove(bytes_.data());
    std::erase(all_->buffers_, this);
  }

  absl::Status Register() {
    absl::StatusOr<uint32_t> rkey = all_->memory_->Add(bytes_.data(), bytes_.size(), readable_);
    if (!rkey.ok()) return rkey.status();
    remote_.rkey = *rkey;
    return absl::OkStatus();
  }
  void ForgetKey() { remote_.rkey = 0; }

 private:
  Buffers* const all_;
  const Mapping mapping_;
  const bool readable_;
};

absl::Status Buffers::Use(RegisteredMemory* memory) {
  memory_ = memory;
  for (OwnBuffer* buffer : buffers_) {
    if (absl::Status status = buffer->Register(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void Buffers::Leave() {
  memory_ = nullptr;
  for (OwnBuffer* buffer : buffers_) buffer->ForgetKey();
}

absl::StatusOr<std::unique_ptr<Buffer>> Buffers::Allocate(size_t bytes, bool readable_by_peers) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of 0 bytes");
  absl::StatusOr<Mapping> mapping = MapAnonymous(bytes);
  if (!mapping.ok()) return mapping.status();
  // Registering touches every page: large pages are fewer.
  if (bytes >= kHugePageBytes) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  const absl::Span<char> memory(mapping->data(), mapping->bytes());
  return Add(*std::move(mapping), memory, readable_by_peers);
}

absl::StatusOr<std::unique_ptr<Buffer>> Buffers::Add(Mapping mapping, absl::Span<char> memory, bool readable_by_peers) {
  if (memory_ == nullptr) return absl::UnavailableError("no memory is registered while the RDMA device is gone");
  auto buffer = std::make_unique<OwnBuffer>(this, std::move(mapping), memory, readable_by_peers);
  if (absl::Status status = buffer->Register(); !status.ok()) return status;
  return buffer;
}

}  // namespace farlook::rdma::verbs
