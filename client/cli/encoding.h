// Bytes as text and back: how keys are typed and shown, and how binary pairs become lines.
#ifndef FARLOOK_CLIENT_CLI_ENCODING_H_
#define FARLOOK_CLIENT_CLI_ENCODING_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

// How a key is written on a command line or in a list of keys.
enum class KeyEncoding {
  kRaw,      // as it is
  kHex,      // two hexadecimal digits a byte
  kEscaped,  // \\ \n \r \t \0 \xHH; all else as it is
};

// INVALID_ARGUMENT says which character is wrong.
absl::StatusOr<KeyEncoding> ParseKeyEncoding(absl::string_view name);
absl::StatusOr<std::string> DecodeKey(absl::string_view text, KeyEncoding encoding);
std::string EncodeKey(absl::string_view key, KeyEncoding encoding);

// Escapes backslashes and control characters, and bytes that are not UTF-8. The result holds neither tab nor line feed.
std::string Escape(absl::string_view bytes);
// The inverse; also knows \" and \'.
absl::StatusOr<std::string> Unescape(absl::string_view text);

bool IsUtf8(absl::string_view bytes);

// For messages: escaped, in double quotes, cut to a length that a line can bear.
std::string Quoted(absl::string_view bytes);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_ENCODING_H_
