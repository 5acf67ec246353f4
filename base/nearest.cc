#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/match.h"

namespace farlook {
namespace {

// Words that a person typed are short; no candidate is near to a longer one.
constexpr size_t kMaxWordBytes = 32;

// The optimal string alignment distance.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

absl::string_view Nearest(absl::string_view word, absl::Span<const absl::string_view> candidates) {
  if (word.empty() || word.size() > kMaxWordBytes) return {};
  absl::string_view nearest;
  // At most a third of the letters may be wrong, one always.
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const absl::string_view candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty()) return nearest;
  const auto begins = [&](absl::string_view candidate) { return absl::StartsWith(candidate, word); };
  const auto first = std::find_if(candidates.begin(), candidates.end(), begins);
  if (first == candidates.end() || std::find_if(first + 1, candidates.end(), begins) != candidates.end()) return {};
  return *first;
}

}  // namespace farlook
