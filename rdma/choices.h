// Addresses with a choice of transports: `auto://host:port` stands for `rdma://host:port` and `tcp://host:port`. A
// server listens at both, and one suffices; a client uses the first that connects.
#ifndef FARLOOK_RDMA_CHOICES_H_
#define FARLOOK_RDMA_CHOICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma {

bool IsAuto(absl::string_view address);

// Returns the addresses that it stands for, best first; any other address stands for itself. ParseAddress() accepts
// each. INVALID_ARGUMENT as for ParseAddress().
absl::StatusOr<std::vector<std::string>> Choices(absl::string_view address);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_CHOICES_H_
