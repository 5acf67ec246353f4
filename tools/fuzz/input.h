// The input of a fuzz target, read as a program: bytes and strings, one after the other. Missing input is zero.
#ifndef FARLOOK_TOOLS_FUZZ_INPUT_H_
#define FARLOOK_TOOLS_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace farlook::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  // Little-endian, of `bytes` bytes.
  uint64_t Word(int bytes = 8) {
    uint64_t word = 0;
    for (int i = 0; i < bytes; ++i) word |= uint64_t{Byte()} << 8 * i;
    return word;
  }
  // Returns at most `bytes` bytes.
  absl::string_view Bytes(size_t bytes) {
    const absl::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  absl::string_view rest_;
};

}  // namespace farlook::fuzz

#endif  // FARLOOK_TOOLS_FUZZ_INPUT_H_
