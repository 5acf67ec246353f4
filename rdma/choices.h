// Addresses that leave a choice, as users write them: `auto://host:port` stands for `rdma://host:port` and
// `tcp://host:port`. Who listens does so at both, where one suffices; who connects takes the first that leads there.
#ifndef FARLOOK_RDMA_CHOICES_H_
#define FARLOOK_RDMA_CHOICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma {

bool IsAuto(absl::string_view address);

// What it stands for, the best first; of any other address itself alone. Each is understood by ParseAddress().
// INVALID_ARGUMENT as of that.
absl::StatusOr<std::vector<std::string>> Choices(absl::string_view address);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_CHOICES_H_
