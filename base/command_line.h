// Command lines of daemons, with flagfiles.
//
// Flags are Abseil's; its ParseCommandLine() is not used. That one writes errors to stderr in a form of its own, ends
// the process, and takes a flagfile that is a directory for an empty one.
#ifndef FARLOOK_BASE_COMMAND_LINE_H_
#define FARLOOK_BASE_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook {

// Sets the flags named in `names` from `words`, the arguments of `program`. A word is --name=value or --name value. A
// boolean flag may also be --name or --noname. One dash is as good as two. --flagfile=FILE stands for the words in
// FILE, one on each line. Empty lines, lines that begin with # and a byte order mark at the beginning are ignored.
// INVALID_ARGUMENT names the mistake, its place in a file, and the cure. Characters of a file that cannot be seen, or
// are not UTF-8, are mistakes, except in comments.
absl::Status ParseCommandLine(absl::string_view program, const std::vector<std::string>& words,
                              const std::vector<absl::string_view>& names);

// Returns the values in force as a flagfile: for each flag of `names` its help behind a #, then the flag. A flag
// without a value is behind a # too.
std::string FlagsToText(const std::vector<absl::string_view>& names);

}  // namespace farlook

#endif  // FARLOOK_BASE_COMMAND_LINE_H_
