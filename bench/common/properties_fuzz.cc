// Any text as a file of properties, and any value as a number.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "bench/common/properties.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farlook::bench::Properties;
  Properties properties;
  const absl::Status status = farlook::bench::ParseProperties(
      absl::string_view(reinterpret_cast<const char*>(data), size), "fuzz", &properties);
  if (!status.ok() && status.message().empty()) std::abort();
  farlook::bench::PropertyReader reader(&properties);
  for (const auto& [name, value] : properties) {
    if (reader.Int(name, 7, 1, 9) < 1 || reader.Int(name, 7, 1, 9) > 9) std::abort();
    const double number = reader.Double(name, 0.5, 0, 1);
    if (!(number >= 0 && number <= 1)) std::abort();
    reader.Bool(name, false);
    if (reader.String(name, "") != value) std::abort();
  }
  if (!reader.Unread().empty()) std::abort();
  return 0;
}
