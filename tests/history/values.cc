#include "tests/history/values.h"

#include <cstring>
#include <random>

namespace farlook::history {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

// The bytes of values after their number.
const std::string& Filler() {
  static const std::string* const filler = [] {
    auto* text = new std::string;
    std::mt19937_64 random(4711);
    while (text->size() < kMaxValueBytes + 4'096) {
      const uint64_t word = random();
      text->append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    return text;
  }();
  return *filler;
}

absl::string_view FillerOf(uint64_t write, size_t bytes) {
  return absl::string_view(Filler()).substr(write * 8 % 4'096, bytes);
}

}  // namespace

std::string MakeValue(uint64_t write, uint32_t bytes) {
  std::string value(bytes, '\0');
  std::memcpy(value.data(), &write, kNumberBytes);
  const absl::string_view filler = FillerOf(write, bytes - kNumberBytes);
  if (!filler.empty()) std::memcpy(value.data() + kNumberBytes, filler.data(), filler.size());
  return value;
}

uint64_t WriteOfValue(absl::string_view value) {
  uint64_t write = 0;
  if (value.size() >= kNumberBytes) std::memcpy(&write, value.data(), kNumberBytes);
  return write;
}

bool IsWhole(absl::string_view value, uint64_t write) {
  return WriteOfValue(value) == write && value.substr(kNumberBytes) == FillerOf(write, value.size() - kNumberBytes);
}

}  // namespace farlook::history
