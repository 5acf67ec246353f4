#include "bench/key_name.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "bench/fnv.h"

namespace farlook::bench {
namespace {

constexpr uint64_t kEightDigits = 100'000'000;

// `number` has at most 8 digits: halved into parts of 4, 2 and 1 digits, all parts in one word, a byte for each at
// last.
void WriteEightDigits(uint64_t number, char* to) {
  static_assert(std::endian::native == std::endian::little, "the first digit goes to the lowest byte");
  uint64_t parts = number / 10'000 | number % 10'000 << 32;
  const uint64_t hundreds = parts * 10'486 >> 20 & 0x7f'0000'007f;  // exact below 10,000
  parts = hundreds | (parts - 100 * hundreds) << 16;
  const uint64_t tens = parts * 103 >> 10 & 0x000f'000f'000f'000f;  // exact below 100
  parts = tens | (parts - 10 * tens) << 8;
  parts += 0x3030'3030'3030'3030;
  std::memcpy(to, &parts, sizeof(parts));
}

}  // namespace

void BuildKeyName(int64_t number, const KeyNaming& naming, std::string* name) {
  constexpr size_t kPrefix = 4, kDigits = 24;
  if (!naming.ordered) number = FnvHash64(number);
  char text[kPrefix + kDigits];
  char* const end = text + sizeof(text);
  char* first;
  if (number >= 0) [[likely]] {
    // std::to_chars makes nine divisions that wait for each other, which took a third of the driver's time.
    const uint64_t rest = static_cast<uint64_t>(number) / kEightDigits;
    WriteEightDigits(rest / kEightDigits, end - 24);
    WriteEightDigits(rest % kEightDigits, end - 16);
    WriteEightDigits(static_cast<uint64_t>(number) % kEightDigits, end - 8);
    first = end - 19;  // there are no longer ones
    while (first < end - 1 && *first == '0') ++first;
  } else {
    char digits[kDigits];
    const size_t length = static_cast<size_t>(std::to_chars(digits, digits + kDigits, number).ptr - digits);
    first = end - length;
    std::memcpy(first, digits, length);
  }
  const size_t length = static_cast<size_t>(end - first);
  if (static_cast<int>(length) >= naming.zero_padding) {
    first -= kPrefix;
    std::memcpy(first, "user", kPrefix);
    name->assign(first, kPrefix + length);
    return;
  }
  name->assign("user");
  name->append(static_cast<size_t>(naming.zero_padding) - length, '0');
  name->append(first, length);
}

}  // namespace farlook::bench
