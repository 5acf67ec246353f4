// Any bytes are refused or decoded, and a decoded record is equal after it was encoded again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "cluster/cluster_record.h"
#include "cluster/directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace farlook::cluster;
  const auto record = DecodeClusterRecord(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!record.ok()) return 0;
  const std::string bytes = EncodeClusterRecord(*record);
  const auto again = DecodeClusterRecord(bytes);
  if (!again.ok() || !(*again == *record) || bytes.size() > kMaxRecordBytes) abort();
  return 0;
}
