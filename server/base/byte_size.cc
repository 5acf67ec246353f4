#include "server/base/byte_size.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

constexpr absl::string_view kUnits = "kmgt";

// Returns the power of 1024 that a unit stands for; -1 if it is no unit.
int PowerOf(absl::string_view unit) {
  if (unit.empty() || absl::EqualsIgnoreCase(unit, "b")) return 0;
  const size_t power = kUnits.find(absl::ascii_tolower(static_cast<unsigned char>(unit[0])));
  if (power == absl::string_view::npos) return -1;
  const absl::string_view rest = unit.substr(1);
  const bool known = rest.empty() || absl::EqualsIgnoreCase(rest, "b") || absl::EqualsIgnoreCase(rest, "ib");
  return known ? static_cast<int>(power) + 1 : -1;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t digits = trimmed.find_first_not_of("0123456789.");
  const absl::string_view number = trimmed.substr(0, digits);
  const int power =
      digits == absl::string_view::npos ? 0 : PowerOf(absl::StripLeadingAsciiWhitespace(trimmed.substr(digits)));
  const double unit = std::pow(1024.0, std::max(power, 0));
  uint64_t whole;
  double value;
  if (power >= 0 && absl::SimpleAtoi(number, &whole) && static_cast<double>(whole) * unit < 0x1p63) {
    size->bytes = whole << (10 * power);
    return true;
  }
  if (power > 0 && absl::SimpleAtod(number, &value) && value * unit < 0x1p63) {
    size->bytes = static_cast<uint64_t>(value * unit);
    return true;
  }
  *error = "give a number of bytes with an optional unit, such as 4GiB, 512MiB, 64k or 1.5g";
  return false;
}

std::string AbslUnparseFlag(ByteSize size) { return FormatByteSize(size.bytes); }

std::string FormatByteSize(uint64_t bytes) {
  int power = 0;
  while (power < static_cast<int>(kUnits.size()) && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  if (power == 0) return absl::StrCat(bytes);
  const char unit = absl::ascii_toupper(static_cast<unsigned char>(kUnits[static_cast<size_t>(power) - 1]));
  return absl::StrCat(bytes, absl::string_view(&unit, 1), "iB");
}

}  // namespace farlook::server
