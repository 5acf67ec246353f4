// "Did you mean ...?"
#ifndef FARLOOK_BASE_NEAREST_H_
#define FARLOOK_BASE_NEAREST_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farlook {

// The candidate that `word` was probably meant to be. It is the one with the fewest characters inserted, removed,
// changed or swapped with their neighbour, if these are few; or the only one that begins with `word`. Empty if there is
// none.
absl::string_view Nearest(absl::string_view word, absl::Span<const absl::string_view> candidates);

}  // namespace farlook

#endif  // FARLOOK_BASE_NEAREST_H_
