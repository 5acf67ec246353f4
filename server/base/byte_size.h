// Sizes as written on a command line.
#ifndef FARLOOK_SERVER_BASE_BYTE_SIZE_H_
#define FARLOOK_SERVER_BASE_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook::server {

// A flag's value: a number of bytes, with an optional unit: k, m, g, t (also K, KB, KiB and so on), all powers of 1024.
// A fraction is allowed with a unit: "1.5g".
struct ByteSize {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(ByteSize size);

// Returns "4GiB", "1536MiB", "100": exact, in the largest unit that divides the size.
std::string FormatByteSize(uint64_t bytes);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_BYTE_SIZE_H_
