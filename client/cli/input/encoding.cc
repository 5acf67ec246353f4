#include "client/cli/input/encoding.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farlook::cli {
namespace {

constexpr size_t kMaxQuotedBytes = 64;

// Returns the length of the UTF-8 sequence that `bytes` begins with, or 0. Overlong forms, surrogates and code points
// above U+10FFFF are invalid (Unicode 15, table 3-7).
size_t Utf8SequenceBytes(absl::string_view bytes) {
  const auto byte = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : uint8_t{0}; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  if (bytes.empty()) return 0;
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (lead > 0xF4) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;
  return continues(1) && continues(2) && continues(3) ? 4 : 0;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::StatusOr<std::string> DecodeHex(absl::string_view text) {
  if (text.size() % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("an odd number of hexadecimal digits (", text.size(), ")"));
  }
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(text.substr(i, 2)), " at position ", i + 1, " is not two hexadecimal digits"));
    }
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

// Control characters, including the C1 ones (U+0080 to U+009F): some terminals obey them.
bool IsControl(absl::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<uint8_t>(sequence[1]) < 0xA0;
}

void AppendEscapedByte(char c, std::string* text) {
  switch (c) {
    case '\\':
      text->append("\\\\");
      return;
    case '\n':
      text->append("\\n");
      return;
    case '\r':
      text->append("\\r");
      return;
    case '\t':
      text->append("\\t");
      return;
    default:
      absl::StrAppend(text, "\\x", absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
      return;
  }
}

// Escapes control characters that are not in `allowed`, the characters in `special`, and bytes that are not UTF-8.
std::string EscapeAllBut(absl::string_view allowed, absl::string_view special, absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = Utf8SequenceBytes(bytes);
    const absl::string_view sequence = bytes.substr(0, length == 0 ? 1 : length);
    const bool escaped =
        IsControl(sequence) ? !absl::StrContains(allowed, sequence) : absl::StrContains(special, sequence);
    if (length == 0 || escaped) {
      for (char c : sequence) AppendEscapedByte(c, &text);
    } else {
      text.append(sequence.data(), sequence.size());
    }
    bytes.remove_prefix(sequence.size());
  }
  return text;
}

}  // namespace

absl::StatusOr<KeyEncoding> ParseKeyEncoding(absl::string_view name) {
  if (name == "raw") return KeyEncoding::kRaw;
  if (name == "hex") return KeyEncoding::kHex;
  if (name == "escaped") return KeyEncoding::kEscaped;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is none of raw, hex, escaped"));
}

absl::StatusOr<std::string> DecodeKey(absl::string_view text, KeyEncoding encoding) {
  switch (encoding) {
    case KeyEncoding::kHex:
      return DecodeHex(text);
    case KeyEncoding::kEscaped:
      return Unescape(text);
    case KeyEncoding::kRaw:
      break;
  }
  return std::string(text);
}

std::string EncodeKey(absl::string_view key, KeyEncoding encoding) {
  switch (encoding) {
    case KeyEncoding::kHex:
      return absl::BytesToHexString(key);
    case KeyEncoding::kEscaped:
      return Escape(key);
    case KeyEncoding::kRaw:
      break;
  }
  return std::string(key);
}

std::string Escape(absl::string_view bytes) { return EscapeAllBut("", "\\", bytes); }

std::string Printable(absl::string_view bytes) { return EscapeAllBut("\t\n", "", bytes); }

absl::StatusOr<std::string> Unescape(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes.push_back(text[i]);
      continue;
    }
    const size_t start = i++;
    const char kind = i < text.size() ? text[i] : '\0';
    switch (i < text.size() ? kind : 'E') {
      case '\\':
      case '"':
      case '\'':
        bytes.push_back(kind);
        break;
      case 'n':
        bytes.push_back('\n');
        break;
      case 'r':
        bytes.push_back('\r');
        break;
      case 't':
        bytes.push_back('\t');
        break;
      case '0':
        bytes.push_back('\0');
        break;
      case 'x': {
        const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
        if (high < 0 || low < 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("\\x at position ", start + 1, " wants two hexadecimal digits"));
        }
        bytes.push_back(static_cast<char>(high * 16 + low));
        i += 2;
        break;
      }
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("unknown escape at position ", start + 1, ": known are \\\\ \\\" \\' \\n \\r \\t \\0 \\xHH"));
    }
  }
  return bytes;
}

bool IsUtf8(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = Utf8SequenceBytes(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string Quoted(absl::string_view bytes) {
  const bool cut = bytes.size() > kMaxQuotedBytes;
  size_t length = cut ? kMaxQuotedBytes : bytes.size();
  // Not within a character.
  while (cut && length > kMaxQuotedBytes - 4 && (static_cast<uint8_t>(bytes[length]) & 0xC0) == 0x80) --length;
  std::string text = "\"";
  for (char c : Escape(bytes.substr(0, length))) {
    if (c == '"') text.push_back('\\');
    text.push_back(c);
  }
  absl::StrAppend(&text, "\"", cut ? absl::StrCat("... (", bytes.size(), " bytes)") : "");
  return text;
}

}  // namespace farlook::cli
