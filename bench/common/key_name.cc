#include "bench/common/key_name.h"

#include <charconv>

namespace farlook::bench {

void BuildKeyName(int64_t number, const KeyNaming& naming, std::string* name) {
  if (!naming.ordered) number = FnvHash64(number);
  char digits[24];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
  const int length = static_cast<int>(end.ptr - digits);
  name->assign("user");
  if (length < naming.zero_padding) name->append(static_cast<size_t>(naming.zero_padding - length), '0');
  name->append(digits, static_cast<size_t>(length));
}

}  // namespace farlook::bench
