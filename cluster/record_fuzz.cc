// Any bytes are refused or decoded, and a decoded record is equal after it was encoded again. The checksum is corrected
// first, since random bytes never match it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "cluster/batch_testing.h"
#include "cluster/record.h"
#include "kv/layout/hash.h"
#include "kv/layout/words.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace farlook;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)cluster::DecodeBatch(bytes);
  if (size < sizeof(uint64_t)) return 0;
  kv::StoreAs(bytes.data(), kv::Hasher(0)(absl::string_view(bytes).substr(sizeof(uint64_t))));
  const auto batch = cluster::DecodeBatch(bytes);
  if (batch.ok() && cluster::EncodeBatch(batch->head, batch->records) != bytes) abort();
  return 0;
}
