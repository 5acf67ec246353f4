// Decodes any bytes as a map; a valid map is encoded again and must be equal.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "kv/wire/cluster_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  namespace kv = farlook::kv;
  const auto map = kv::ClusterMap::Decode({reinterpret_cast<const char*>(data), bytes});
  if (!map.ok()) return 0;
  const std::string text = map->Encode();
  const auto again = kv::ClusterMap::Decode(text);
  if (!again.ok() || again->Encode() != text) std::abort();
  for (const kv::ClusterMap::Group& group : map->groups) {
    const auto slots = kv::ParseSlots(kv::FormatSlots(group.slots));
    if (!slots.ok() || *slots != group.slots) std::abort();
  }
  return 0;
}
