// Any text as an address: if it is parsed, its formatted form is parsed to the same address.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/choices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farlook::rdma::FormatAddress;
  using farlook::rdma::ParseAddress;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto choices = farlook::rdma::Choices(text); choices.ok()) {
    if (choices->size() != (farlook::rdma::IsAuto(text) ? 2u : 1u)) std::abort();
    for (const auto& choice : *choices) {
      if (!ParseAddress(choice).ok()) std::abort();
    }
  }
  const auto address = ParseAddress(text);
  if (!address.ok()) return address.status().message().empty() ? std::abort(), 0 : 0;
  const auto again = ParseAddress(FormatAddress(*address));
  const bool same = again.ok() && again->scheme == address->scheme && again->path == address->path &&
                    again->host == address->host && again->port == address->port;
  if (!same) std::abort();
  return 0;
}
