// Imports any line, or decodes any text as a key: a valid one is written again and must mean the same. The first byte
// chooses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/pair_format.h"

namespace farlook::cli {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void FuzzPair(absl::string_view line, PairFormat format) {
  const auto pair = ParsePair(line, format);
  if (!pair.ok()) {
    Check(!pair.status().message().empty());
    return;
  }
  const std::string written = FormatPair(*pair, format);
  Check(written.find('\n') == std::string::npos);
  const auto again = ParsePair(written, format);
  Check(again.ok() && again->key == pair->key && again->value == pair->value && again->counter == pair->counter &&
        again->ttl_ms == pair->ttl_ms && again->keep == pair->keep);
}

void FuzzKey(absl::string_view text, KeyEncoding encoding) {
  const auto key = DecodeKey(text, encoding);
  if (!key.ok()) {
    Check(!key.status().message().empty());
    return;
  }
  const auto again = DecodeKey(EncodeKey(*key, encoding), encoding);
  Check(again.ok() && *again == *key);
}

}  // namespace
}  // namespace farlook::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farlook::cli::KeyEncoding;
  using farlook::cli::PairFormat;
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      farlook::cli::FuzzPair(text, PairFormat::kJson);
      break;
    case 1:
      farlook::cli::FuzzPair(text, PairFormat::kTsv);
      break;
    case 2:
      farlook::cli::FuzzKey(text, KeyEncoding::kRaw);
      break;
    case 3:
      farlook::cli::FuzzKey(text, KeyEncoding::kHex);
      break;
    case 4:
      farlook::cli::FuzzKey(text, KeyEncoding::kEscaped);
      break;
  }
  return 0;
}
