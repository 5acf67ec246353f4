// Unseen ways of a counter from one number to another: by adds of unknown outcome, some of which happened.
//
// They would have to be tried in every combination, one after the other. Instead the checker asks which sets of them
// have the right sum, and takes each such set in one step.
#ifndef FARLOOK_TESTS_HISTORY_BRIDGE_H_
#define FARLOOK_TESTS_HISTORY_BRIDGE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace farlook::history {

// An add: its index, and its delta.
using UnknownAdd = std::pair<uint32_t, int64_t>;

// Returns the sets of `adds` whose deltas sum up to `sum`, which is not 0, the small ones first: at most `most` of
// them. Adds of one delta count as identical (the earlier ones are taken). `*all` becomes false if there may be more
// than were returned.
std::vector<std::vector<uint32_t>> SetsWithSum(const std::vector<UnknownAdd>& adds, int64_t sum, size_t most,
                                               bool* all);

}  // namespace farlook::history

#endif  // FARLOOK_TESTS_HISTORY_BRIDGE_H_
