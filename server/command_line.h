// The command line of kv_server, and its flagfiles.
//
// Flags are those of Abseil, but not its ParseCommandLine: that writes to stderr in a form of its own, where everything
// else of kv_server is logfmt, and ends the process.
#ifndef FARLOOK_SERVER_COMMAND_LINE_H_
#define FARLOOK_SERVER_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::server {

// Sets the flags named in `names` from `words`, which does not begin with the program's name. A word is --name=value,
// --name value, or of a flag that is true or false --name and --noname; one dash is as good as two. --flagfile=FILE
// stands for the words in FILE, one a line, where empty lines and those that begin with # mean nothing.
// INVALID_ARGUMENT: what is wrong, where it stands if that is a file, and what would be good.
absl::Status ParseCommandLine(const std::vector<std::string>& words, const std::vector<absl::string_view>& names);

// The values in force, as a flagfile: for each flag of `names` its help behind a #, then the flag. One that has no
// value stands behind a # too.
std::string FlagsToText(const std::vector<absl::string_view>& names);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COMMAND_LINE_H_
