// The buffers of one endpoint's user. They stay when the device changes: only their keys change.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_BUFFERS_H_
#define FARLOOK_RDMA_VERBS_DEVICE_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/registered_memory.h"

namespace farlook::rdma::verbs {

// Thread safety: none. Must outlive the buffers.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Registers all present and future buffers with `memory`, until Leave(), which must be called after an error too.
  absl::Status Use(RegisteredMemory* memory);
  // `memory` is about to be destroyed. No buffer has a key any more.
  void Leave();

  // See Endpoint. UNAVAILABLE while there is no device.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers);
  absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> memory) {
    return Add(Mapping(), memory, /*readable_by_peers=*/true);
  }

 private:
  class OwnBuffer;

  absl::StatusOr<std::unique_ptr<Buffer>> Add(Mapping mapping, absl::Span<char> memory, bool readable_by_peers);

  RegisteredMemory* memory_ = nullptr;  // null: no device
  std::vector<OwnBuffer*> buffers_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_BUFFERS_H_
