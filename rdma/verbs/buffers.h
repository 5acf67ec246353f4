// The buffers of one endpoint's user. They stay when devices come and go: only their keys are others then.
#ifndef FARLOOK_RDMA_VERBS_BUFFERS_H_
#define FARLOOK_RDMA_VERBS_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/transport.h"
#include "rdma/verbs/registered_memory.h"

namespace farlook::rdma::verbs {

// Thread safety: none. It outlives the buffers.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Registers all buffers with `memory`, and those to come, until Leave(), which is due after an error too.
  absl::Status Use(RegisteredMemory* memory);
  // `memory` goes. No buffer has a key any more.
  void Leave();

  // As of Endpoint. UNAVAILABLE while there is no device.
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

#endif  // FARLOOK_RDMA_VERBS_BUFFERS_H_
