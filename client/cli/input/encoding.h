// Conversion of bytes to text and back: how keys are typed and shown, and how binary pairs become lines.
#ifndef FARLOOK_CLIENT_CLI_INPUT_ENCODING_H_
#define FARLOOK_CLIENT_CLI_INPUT_ENCODING_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

// The notation of a key on a command line or in a list of keys.
enum class KeyEncoding {
  kRaw,      // unchanged
  kHex,      // two hexadecimal digits a byte
  kEscaped,  // \\ \n \r \t \0 \xHH; all else unchanged
};

// INVALID_ARGUMENT says which character is wrong.
absl::StatusOr<KeyEncoding> ParseKeyEncoding(absl::string_view name);
absl::StatusOr<std::string> DecodeKey(absl::string_view text, KeyEncoding encoding);
std::string EncodeKey(absl::string_view key, KeyEncoding encoding);

// Escapes backslashes and control characters, and bytes that are not UTF-8. The result contains neither tab nor line
// feed.
std::string Escape(absl::string_view bytes);
// The inverse; also knows \" and \'.
absl::StatusOr<std::string> Unescape(absl::string_view text);

bool IsUtf8(absl::string_view bytes);

// For a terminal: escapes control characters, except tab and line feed, and bytes that are not UTF-8. So no value can
// move the cursor, change a title or type for the user. Not reversible, since a backslash is unchanged.
std::string Printable(absl::string_view bytes);

// For messages: escaped, in double quotes, cut to a reasonable length.
std::string Quoted(absl::string_view bytes);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_ENCODING_H_
