// Checks of text that people wrote into a file: flags or users.
#ifndef FARLOOK_BASE_VISIBLE_TEXT_H_
#define FARLOOK_BASE_VISIBLE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farlook {

// Returns a file's text without the byte order mark that some editors put before it.
absl::string_view WithoutByteOrderMark(absl::string_view text);

// Returns a description of the first invisible character of `line`, with its place, counted from 1. Invisible are
// control characters, spaces other than ASCII's, marks of no width, and bytes that are not UTF-8. Empty: there is none.
// Tabs are visible.
std::string FirstInvisible(absl::string_view line);

}  // namespace farlook

#endif  // FARLOOK_BASE_VISIBLE_TEXT_H_
