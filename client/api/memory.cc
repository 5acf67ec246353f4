#include "farlook/memory.h"

#include "absl/types/span.h"
#include "client/api/client_impl.h"

namespace farlook {

absl::Status RegisterMemory(Client* client, std::span<char> memory) {
  if (ClientImpl::Of(*client).in_child()) return client::OfParent();
  const auto cores = ClientImpl::Of(*client).cores.all();
  for (size_t i = 0; i < cores.size(); ++i) {
    absl::Status status = cores[i]->user_memory()->Register(absl::MakeSpan(memory.data(), memory.size()));
    if (status.ok()) continue;
    for (size_t j = 0; j < i; ++j) cores[j]->user_memory()->Unregister(memory.data()).IgnoreError();
    return status;
  }
  return absl::OkStatus();
}

absl::Status UnregisterMemory(Client* client, const char* memory) {
  if (ClientImpl::Of(*client).in_child()) return client::OfParent();
  absl::Status status = absl::NotFoundError("no registered memory begins here");
  for (client::ClientCore* core : ClientImpl::Of(*client).cores.all()) {
    // A core may have unregistered it in a former call, which failed for another core.
    const absl::Status its = core->user_memory()->Unregister(memory);
    if (!absl::IsNotFound(its) && (status.ok() || absl::IsNotFound(status))) status = its;
  }
  return status;
}

}  // namespace farlook
