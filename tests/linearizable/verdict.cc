#include "tests/linearizable/verdict.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "tests/history/check.h"

namespace farlook {
namespace {

constexpr uint64_t kMaxSteps = 200'000;

std::string Lines(const history::KeyHistory& history) {
  std::string text;
  for (const history::Operation& operation : history) text += ToString(operation) + "\n";
  return text;
}

int64_t EndOf(const history::KeyHistory& history) {
  int64_t end_ns = 0;
  for (const history::Operation& operation : history) {
    end_ns = std::max(end_ns, operation.end_ns == history::kNever ? operation.begin_ns : operation.end_ns);
  }
  return end_ns;
}

// Returns the history with one more answer at the end: a value that was overwritten just before, or a number that the
// counter never had.
history::KeyHistory WithAWrongAnswer(history::KeyHistory history, bool counter) {
  using history::Type;
  int64_t now = EndOf(history);
  const auto add = [&](Type type, uint64_t write, uint64_t found, int64_t number) {
    history::Operation operation;
    operation.type = type;
    operation.outcome = history::Outcome::kOk;
    operation.begin_ns = ++now;
    operation.end_ns = ++now;
    operation.write = write;
    operation.found = found;
    operation.counter = number;
    history.push_back(operation);
  };
  constexpr uint64_t kFirst = uint64_t{1} << 40, kSecond = kFirst + 1;
  if (counter) {
    add(Type::kReadCounter, 0, 0, -1);
  } else {
    add(Type::kPut, kFirst, 0, 0);
    add(Type::kPut, kSecond, 0, 0);
    add(Type::kGet, 0, kFirst, 0);
  }
  return history;
}

}  // namespace

void ExpectLinearizable(const Board& board, const history::Operation* wipe) {
  EXPECT_EQ(board.violation(), "");
  size_t operations = 0, unknown = 0;
  int undecided = 0, key = 0;
  for (history::KeyHistory history : board.Histories()) {
    if (wipe != nullptr) history.push_back(*wipe);
    operations += history.size();
    unknown += static_cast<size_t>(std::count_if(history.begin(), history.end(), [](const history::Operation& o) {
      return o.outcome == history::Outcome::kPending;
    }));
    const history::CheckResult result = history::Check(history, kMaxSteps);
    undecided += result.verdict == history::Verdict::kGaveUp ? 1 : 0;
    if (result.verdict == history::Verdict::kViolation) {
      ADD_FAILURE() << "key " << key << ": " << result.why << "\n" << Lines(history::Shrink(history));
    }
    EXPECT_NE(history::Check(WithAWrongAnswer(history, key % 2 == 1), kMaxSteps).verdict,
              history::Verdict::kLinearizable);
    ++key;
  }
  std::printf("%zu operations, %zu of unknown outcome; of %d keys %d undecided\n", operations, unknown, Board::kKeys,
              undecided);
  EXPECT_GE(operations, 300u);
  EXPECT_LT(undecided, Board::kKeys);
}

}  // namespace farlook
