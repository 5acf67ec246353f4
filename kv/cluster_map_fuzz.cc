// Any bytes as a map; what is one is written as it was understood.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "kv/cluster_map.h"

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
