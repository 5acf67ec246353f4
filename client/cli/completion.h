// Completion by the tab key in a session: commands and flags.
#ifndef FARLOOK_CLIENT_CLI_COMPLETION_H_
#define FARLOOK_CLIENT_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::cli {

struct Completion {
  std::string insert;                   // at the cursor: the common part of all candidates
  std::vector<std::string> candidates;  // sorted; whole words
};

// `text` is the text before the cursor.
Completion Complete(absl::string_view text);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMPLETION_H_
