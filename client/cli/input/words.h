// Splits a line of a session into words.
//
//     put key 'a value'  "line one\nline two \x00"  back\ slash   # a comment
//
// Blanks separate words. '...' is verbatim. "..." knows the escapes of encoding.h. Elsewhere a backslash quotes the
// next character. # at the start of a word begins a comment.
#ifndef FARLOOK_CLIENT_CLI_INPUT_WORDS_H_
#define FARLOOK_CLIENT_CLI_INPUT_WORDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

// INVALID_ARGUMENT: an open quote or a bad escape. An empty line has no words.
absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view line);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_WORDS_H_
