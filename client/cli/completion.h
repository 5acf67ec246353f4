// What the tab key completes in a session: commands and flags.
#ifndef FARLOOK_CLIENT_CLI_COMPLETION_H_
#define FARLOOK_CLIENT_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::cli {

struct Completion {
  std::string insert;                   // at the cursor: what all candidates have in common
  std::vector<std::string> candidates;  // sorted; whole words
};

// `text` is what stands before the cursor.
Completion Complete(absl::string_view text);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_COMPLETION_H_
