#include "farlook/memory.h"

#include "absl/types/span.h"
#include "client/client_impl.h"

namespace farlook {

absl::Status RegisterMemory(Client* client, std::span<char> memory) {
  return ClientImpl::Of(*client).core.user_memory()->Register(absl::MakeSpan(memory.data(), memory.size()));
}

absl::Status UnregisterMemory(Client* client, const char* memory) {
  return ClientImpl::Of(*client).core.user_memory()->Unregister(memory);
}

}  // namespace farlook
