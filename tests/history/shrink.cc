// A violation made small enough to be read.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/history/check.h"

namespace farlook::history {
namespace {

// Returns the operations that had ended, and those that had begun, at that moment.
KeyHistory Until(const KeyHistory& history, int64_t ns) {
  KeyHistory cut;
  for (Operation operation : history) {
    if (operation.begin_ns > ns) continue;
    if (operation.end_ns > ns) {
      operation.end_ns = kNever;
      operation.outcome = operation.outcome == Outcome::kNothing ? Outcome::kNothing : Outcome::kPending;
      if (operation.type == Type::kGet || operation.type == Type::kReadCounter) continue;
    }
    cut.push_back(operation);
  }
  return cut;
}

bool Wrong(const KeyHistory& history) { return Check(history, 200'000).verdict == Verdict::kViolation; }

}  // namespace

KeyHistory Shrink(KeyHistory history) {
  std::vector<int64_t> ends;
  for (const Operation& operation : history) {
    if (operation.end_ns != kNever) ends.push_back(operation.end_ns);
  }
  std::sort(ends.begin(), ends.end());
  // A violation remains one whatever follows.
  const auto first =
      std::partition_point(ends.begin(), ends.end(), [&](int64_t ns) { return !Wrong(Until(history, ns)); });
  if (first != ends.end()) history = Until(history, *first);
  // Without an operation that only read, the history demands less: if it is still wrong, that operation does not
  // matter.
  for (size_t i = 0; i < history.size();) {
    const bool reads = history[i].type == Type::kGet || history[i].type == Type::kReadCounter ||
                       history[i].outcome == Outcome::kNothing ||
                       (history[i].outcome != Outcome::kOk && history[i].outcome != Outcome::kPending);
    KeyHistory fewer = history;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    if (reads && Wrong(fewer)) {
      history = std::move(fewer);
    } else {
      ++i;
    }
  }
  return history;
}

}  // namespace farlook::history
