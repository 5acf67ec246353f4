#include "bench/ycsb/field_values.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace farlook::bench {

void RandomFieldValue(size_t length, Random* random, std::string* bytes) {
  bytes->resize(length);
  for (size_t at = 0; at < length; at += 8) {
    // 5 random bits in each byte, moved to '@' to '_'.
    const uint64_t word = (random->Next() & 0x1f1f1f1f1f1f1f1f) | 0x4040404040404040;
    std::memcpy(bytes->data() + at, &word, std::min<size_t>(8, length - at));
  }
}

void DeterministicFieldValue(absl::string_view key, absl::string_view name, size_t length, std::string* bytes) {
  // Java: h = 31 * h + c for each char. The text only grows, so the hash of all of it is updated incrementally.
  uint32_t hash = 0;
  bytes->clear();
  const auto append = [&hash, bytes](absl::string_view text) {
    for (char c : text) hash = 31 * hash + static_cast<uint8_t>(c);
    bytes->append(text.data(), text.size());
  };
  append(key);
  append(":");
  append(name);
  while (bytes->size() < length) {
    append(":");
    char digits[16];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), static_cast<int32_t>(hash));
    append(absl::string_view(digits, static_cast<size_t>(end.ptr - digits)));
  }
  bytes->resize(length);
}

}  // namespace farlook::bench
