#include "client/cli/input/json_line.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/input/encoding.h"
#include "nlohmann/json.hpp"

namespace farlook::cli {
namespace {

// `text` is UTF-8. nlohmann::json escapes the control characters below U+0020; the others, which some terminals obey,
// are escaped here.
std::string JsonString(absl::string_view text) {
  const std::string dumped = nlohmann::json(std::string(text)).dump();
  std::string escaped;
  for (size_t i = 0; i < dumped.size(); ++i) {
    const auto byte = static_cast<uint8_t>(dumped[i]);
    const uint8_t next = i + 1 < dumped.size() ? static_cast<uint8_t>(dumped[i + 1]) : 0;
    if (byte == 0x7F) {
      escaped += "\\u007f";
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      absl::StrAppend(&escaped, "\\u00", absl::Hex(next));
      ++i;
    } else {
      escaped.push_back(dumped[i]);
    }
  }
  return escaped;
}

// -?(0|[1-9][0-9]*)(\.[0-9]+)?
bool IsPlainNumber(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  const size_t point = text.find('.');
  const absl::string_view whole = text.substr(0, point);
  const auto all_digits = [](absl::string_view s) { return !s.empty() && s.find_first_not_of("0123456789") == s.npos; };
  if (!all_digits(whole) || (whole.size() > 1 && whole[0] == '0')) return false;
  return point == text.npos || all_digits(text.substr(point + 1));
}

}  // namespace

void JsonLine::Name(absl::string_view name) {
  absl::StrAppend(&text_, text_.size() > 1 ? "," : "", JsonString(IsUtf8(name) ? name : Escape(name)), ":");
}

JsonLine& JsonLine::Bytes(absl::string_view name, absl::string_view bytes) {
  if (IsUtf8(bytes)) {
    Name(name);
    text_ += JsonString(bytes);
  } else {
    Name(absl::StrCat(name, "_base64"));
    absl::StrAppend(&text_, "\"", absl::Base64Escape(bytes), "\"");
  }
  return *this;
}

JsonLine& JsonLine::Number(absl::string_view name, uint64_t number) {
  Name(name);
  absl::StrAppend(&text_, number);
  return *this;
}

JsonLine& JsonLine::Number(absl::string_view name, double number) {
  Name(name);
  text_ += nlohmann::json(number).dump();  // "null" if it is not finite
  return *this;
}

JsonLine& JsonLine::Bool(absl::string_view name, bool value) {
  Name(name);
  text_ += value ? "true" : "false";
  return *this;
}

JsonLine& JsonLine::NumberOrBytes(absl::string_view name, absl::string_view text) {
  if (!IsPlainNumber(text)) return Bytes(name, text);
  Name(name);
  absl::StrAppend(&text_, text);
  return *this;
}

JsonLine& JsonLine::Object(absl::string_view name, const JsonLine& object) {
  Name(name);
  text_ += object.ToString();
  return *this;
}

}  // namespace farlook::cli
