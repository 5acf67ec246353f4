// Any bytes are refused or decoded, and a decoded record is equal after it was encoded again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "cluster/configuration.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace farlook::cluster;
  const auto configuration = DecodeConfiguration(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!configuration.ok()) return 0;
  const auto again = DecodeConfiguration(EncodeConfiguration(*configuration));
  if (!again.ok() || !(*again == *configuration)) abort();
  return 0;
}
