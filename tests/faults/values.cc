#include "tests/faults/values.h"

#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook {

std::string SelfVerifying(absl::string_view key, uint64_t sequence, size_t most_bytes) {
  std::minstd_rand random(static_cast<uint32_t>(std::hash<std::string>{}(std::string(key)) + sequence));
  std::string value = absl::StrCat(key, "/", sequence, "/");
  const size_t bytes = value.size() + random() % most_bytes;
  while (value.size() < bytes) value.push_back(static_cast<char>(random()));
  return value;
}

int64_t Verify(absl::string_view key, absl::string_view value, size_t most_bytes) {
  const std::vector<absl::string_view> parts = absl::StrSplit(value, absl::MaxSplits('/', 2));
  uint64_t sequence = 0;
  if (parts.size() != 3 || parts[0] != key || !absl::SimpleAtoi(parts[1], &sequence)) return -1;
  return SelfVerifying(key, sequence, most_bytes) == value ? static_cast<int64_t>(sequence) : -1;
}

int64_t Repeat(int64_t usual, int64_t full) { return std::getenv("FARLOOK_FULL_LENGTH") != nullptr ? full : usual; }

}  // namespace farlook
