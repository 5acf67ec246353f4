#include "bench/common/key_name.h"

#include <charconv>

namespace farlook::bench {

void BuildKeyName(int64_t number, std::string* name) {
  char digits[24];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), FnvHash64(number));
  name->assign("user");
  name->append(digits, static_cast<size_t>(end.ptr - digits));
}

}  // namespace farlook::bench
