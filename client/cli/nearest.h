// "Did you mean ...?"
#ifndef FARLOOK_CLIENT_CLI_NEAREST_H_
#define FARLOOK_CLIENT_CLI_NEAREST_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farlook::cli {

// The candidate that `word` was probably meant to be: with the fewest characters inserted, removed, changed or swapped
// with their neighbour, if these are few; or the only one that begins with `word`. Empty if there is none.
absl::string_view Nearest(absl::string_view word, absl::Span<const absl::string_view> candidates);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_NEAREST_H_
