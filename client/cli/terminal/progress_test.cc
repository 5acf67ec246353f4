#include "client/cli/terminal/progress.h"

#include <string>

#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProgressTest, ShowsAllWhereThereIsRoom) {
  const ProgressFigures figures{
      .pairs = 450000, .pair_bytes = 45000000, .failures = 2, .input_bytes = 45, .total_bytes = 100};
  const std::string line = FormatProgress("import", figures, 312345, 10, 120);
  EXPECT_EQ(
      line,
      "import  45% |##################                      |  450000 pairs  2 failed  312345/s  0:12 left  31.2 MB/s");
}

TEST(ProgressTest, NeverExceedsTheWidth) {
  const ProgressFigures figures{
      .pairs = 450000, .pair_bytes = 45000000, .failures = 2, .input_bytes = 45, .total_bytes = 100};
  for (size_t width = 0; width < 130; ++width) {
    EXPECT_LE(FormatProgress("import", figures, 312345, 10, width).size(), width);
  }
  EXPECT_EQ(FormatProgress("import", figures, 312345, 10, 60),
            "import  45% |#####       |  450000 pairs  2 failed  312345/s");
  EXPECT_EQ(FormatProgress("import", figures, 312345, 10, 30), "import  45%  450000 pairs");
}

TEST(ProgressTest, WithoutATotalThereIsNoBar) {
  const ProgressFigures figures{.pairs = 1, .pair_bytes = 10, .failures = 0, .input_bytes = 45, .total_bytes = 0};
  EXPECT_EQ(FormatProgress("import", figures, 1, 1, 80), "import  1 pairs  1/s  10 B/s");
}

TEST(ProgressTest, AScanCountsKeys) {
  const ProgressFigures figures{.unit = "keys", .pairs = 100, .input_bytes = 25, .total_bytes = 100};
  EXPECT_EQ(FormatProgress("count", figures, 50, 1, 60),
            "count  25% |#####               |  100 keys  50/s  0:03 left");
}

TEST(ProgressTest, OddFiguresAreHarmless) {
  EXPECT_THAT(FormatProgress("import", {}, 0, 0, 80), Not(HasSubstr("nan")));
  // Expect: a file that grew while it was read gives at most 100%.
  const ProgressFigures grown{.pairs = 1, .pair_bytes = 10, .failures = 0, .input_bytes = 200, .total_bytes = 100};
  EXPECT_THAT(FormatProgress("import", grown, 1, 1, 80), HasSubstr("100%"));
  const ProgressFigures slow{.pairs = 0, .pair_bytes = 0, .failures = 0, .input_bytes = 1, .total_bytes = 1u << 30};
  EXPECT_THAT(FormatProgress("import", slow, 0, 100000, 120), HasSubstr("99:59:59 left"));
  EXPECT_EQ(FormatSummary({}, 0), "0 pairs, 0 B, in 0.00 s (0/s)");
}

TEST(ProgressTest, AFileGetsNoBar) {
  ScratchFile err;
  Console console(0, 1, err.fd());
  Progress progress(&console, "import");
  for (int i = 0; i < 1000; ++i) progress.Update({});
  EXPECT_EQ(err.Content(), "");
}

}  // namespace
}  // namespace farlook::cli
