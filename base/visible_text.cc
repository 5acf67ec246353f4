#include "base/visible_text.h"

#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace farlook {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: it is not UTF-8
};

// The first character of `text`. REQUIRES `text` is not empty.
Character FirstOf(absl::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const auto bytes = static_cast<size_t>(std::countl_one(lead));
  if (bytes < 2 || bytes > 4 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, bytes};
}

bool IsInvisible(uint32_t code) {
  constexpr struct {
    uint32_t first, last;
  } kRanges[] = {{0, 8},           {0xa, 0x1f},      {0x7f, 0xa0},      {0xad, 0xad},     {0x1680, 0x1680},
                 {0x180e, 0x180e}, {0x2000, 0x200f}, {0x2028, 0x202f},  {0x205f, 0x206f}, {0x3000, 0x3000},
                 {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (const auto& range : kRanges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

}  // namespace

absl::string_view WithoutByteOrderMark(absl::string_view text) { return absl::StripPrefix(text, "\xef\xbb\xbf"); }

std::string FirstInvisible(absl::string_view line) {
  for (size_t at = 0; at < line.size();) {
    const Character character = FirstOf(line.substr(at));
    if (character.bytes == 0) {
      return absl::StrFormat("byte 0x%02x at byte %d, which is not UTF-8", static_cast<uint8_t>(line[at]), at + 1);
    }
    if (IsInvisible(character.code)) {
      return absl::StrFormat("U+%04X at byte %d, which cannot be seen", character.code, at + 1);
    }
    at += character.bytes;
  }
  return "";
}

}  // namespace farlook
