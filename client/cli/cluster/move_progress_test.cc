#include "client/cli/cluster/move_progress.h"

#include <algorithm>
#include <string>

#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const MoveFigures kHalf = {.number = 1,
                           .moves = 2,
                           .from = "kv.0",
                           .to = "kv.2",
                           .slots = 683,
                           .items = 450000,
                           .estimate = 1000000,
                           .waits = "",
                           .per_second = 31234};

TEST(MoveProgressTest, ShowsAllWhereThereIsRoom) {
  EXPECT_EQ(FormatMove(kHalf, 100), "move 1 of 2: kv.0 -> kv.2  45%  450000 of 1000000 items  31234/s  0:18 left");
  // Expect: a move of another operator has no number, and without an estimate there is no share.
  EXPECT_EQ(FormatMove({.from = "a", .to = "b", .items = 7}, 100), "a -> b  7 items");
}

TEST(MoveProgressTest, NeverExceedsTheWidth) {
  MoveFigures waits = kHalf;
  waits.waits = "kv.0 has no primary at present";
  for (size_t width = 0; width < 120; ++width) {
    EXPECT_LE(FormatMove(kHalf, width).size(), width);
    EXPECT_LE(FormatMove(waits, width).size(), width);
  }
  EXPECT_EQ(FormatMove(kHalf, 60), "move 1 of 2: kv.0 -> kv.2  45%  450000 of 1000000 items");
  EXPECT_EQ(FormatMove(waits, 50), "move 1 of 2: kv.0 -> kv.2  waits: kv.0 has no prim");
}

TEST(MoveProgressTest, OddFiguresAreHarmless) {
  // Expect: an estimate that was too low gives at most 100%.
  EXPECT_EQ(FormatMove({.from = "a", .to = "b", .items = 9, .estimate = 3, .per_second = 2}, 100),
            "a -> b  100%  9 of 3 items  2/s");
  EXPECT_THAT(FormatMove({.from = "a\x1b", .to = "b", .waits = "\x1b[2J"}, 100), Not(HasSubstr("\x1b")));
}

TEST(MoveProgressTest, AFileGetsALineASecondAtMost) {
  ScratchFile out, err;
  {
    Console console(0, out.fd(), err.fd());
    MoveProgress progress(&console, /*json=*/false, /*line_ms=*/60'000);
    for (int i = 0; i < 1000; ++i) progress.Show(kHalf);
    progress.Print("done", JsonLine());
  }
  EXPECT_EQ(out.Content(), "move 1 of 2: kv.0 -> kv.2  45%  450000 of 1000000 items\ndone\n");
  EXPECT_EQ(err.Content(), "");
}

TEST(MoveProgressTest, AsJson) {
  ScratchFile out, err;
  {
    Console console(0, out.fd(), err.fd());
    MoveProgress progress(&console, /*json=*/true, /*line_ms=*/0);
    progress.Show(kHalf);
    progress.Show({.from = "a", .to = "b", .slots = 1, .waits = "for c"});
    progress.Print("done", JsonLine().Bool("done", true));
  }
  EXPECT_EQ(out.Content(),
            "{\"move\":1,\"moves\":2,\"from\":\"kv.0\",\"to\":\"kv.2\",\"slots\":683,\"items\":450000,"
            "\"items_estimate\":1000000,\"items_per_second\":0.0}\n"
            "{\"from\":\"a\",\"to\":\"b\",\"slots\":1,\"items\":0,\"items_estimate\":0,\"items_per_second\":0.0,"
            "\"waits\":\"for c\"}\n"
            "{\"done\":true}\n");
}

}  // namespace
}  // namespace farlook::cli
