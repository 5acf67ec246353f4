#include "client/cli/terminal/figures.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::IsEmpty;

TEST(FiguresTest, ParsesLines) {
  EXPECT_THAT(ParseFigures(""), IsEmpty());
  const std::vector<Figure> figures = ParseFigures("requests 12\n\n  huge_pages   2 MiB \r\nalone");
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].name, "requests");
  EXPECT_EQ(figures[0].value, "12");
  EXPECT_EQ(figures[1].value, "2 MiB");
  EXPECT_EQ(figures[2].name, "alone");
  EXPECT_EQ(figures[2].value, "");
}

TEST(FiguresTest, JsonKeepsNumbersAndOrder) {
  EXPECT_EQ(FiguresToJson(ParseFigures("b 18446744073709551615\na 1.50\nc none\n")).ToString(),
            R"({"b":18446744073709551615,"a":1.50,"c":"none"})");
  // Expect: a name stays text, whatever it looks like.
  EXPECT_EQ(FiguresToJson(ParseFigures("version 0.1\nincarnation 1234567890123456\nnuma_node 0\n")).ToString(),
            R"({"version":"0.1","incarnation":"1234567890123456","numa_node":"0"})");
}

TEST(FiguresTest, RatesAreBetweenTwoLooks) {
  const std::vector<FigureChange> changes = CompareFigures(ParseFigures("up 10\nsame 5\ntext on\ngone 1\n"),
                                                           ParseFigures("up 30\nsame 5\ntext off\nnew 7\n"), 2);
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_EQ(changes[0].per_second, 10);
  EXPECT_TRUE(changes[0].changed);
  EXPECT_EQ(changes[1].per_second, 0);
  EXPECT_FALSE(changes[1].changed);
  EXPECT_FALSE(changes[2].per_second.has_value());
  EXPECT_TRUE(changes[2].changed);
  EXPECT_EQ(changes[3].name, "new");
  EXPECT_FALSE(changes[3].per_second.has_value());

  EXPECT_EQ(FormatChanges(changes, [](const FigureChange& change) { return change.changed; }),
            "up     30     +10.000/s\n"
            "text  off\n"
            "new     7\n");
  EXPECT_EQ(FormatChanges(changes, [](const FigureChange& change) { return change.name == "same"; }), "same  5\n");
}

TEST(FiguresTest, PercentilesAndRatesHaveNoRate) {
  const std::string names[] = {"get_p99_ns", "lock_longest_ns", "small_eviction_age_ms", "client_gets_per_s"};
  for (const std::string& name : names) {
    const FigureChange change = CompareFigures(ParseFigures(name + " 1"), ParseFigures(name + " 5"), 1).front();
    EXPECT_EQ(change.per_second.has_value(), false) << name;
    EXPECT_TRUE(change.changed);
  }
  EXPECT_TRUE(ParseFigures("lock_holds_below_1024_ns 3").front().is_bucket());
  EXPECT_FALSE(ParseFigures("lock_holds 3").front().is_bucket());
}

TEST(FiguresTest, OfSeveralGroupsAreAddedUp) {
  const std::vector<Figure> sums = AddFigures(
      {ParseFigures("keys 5\nversion 1.2\nhuge_pages none\nput_p99_ns 900\ncpu_user_s 0.25\nown 1\nuptime_s 7\n"
                    "lock_holds_below_1024_ns 3\nlock_hold_sum_ns 70\nlock_longest_ns 20\npage_bytes 4096\n"
                    "longest_room_wait_us 4\nlargest_value_bytes 9\ncluster_groups 2\nsmall_eviction_age_ms 5\n"),
       ParseFigures("keys 7\nversion 1.2\nhuge_pages 2 MiB\nput_p99_ns 400\ncpu_user_s 0.5\nuptime_s 9\n"
                    "lock_holds_below_1024_ns 4\nlock_hold_sum_ns 30\nlock_longest_ns 50\npage_bytes 4096\n"
                    "longest_room_wait_us 3\nlargest_value_bytes 8\ncluster_groups 2\nsmall_eviction_age_ms 6\n")});
  std::string text;
  for (const Figure& figure : sums) text += figure.name + " " + figure.value + "\n";
  EXPECT_EQ(text,
            "keys 12\nversion 1.2\nput_p99_ns 900\ncpu_user_s 0.75\nuptime_s 9\nlock_holds_below_1024_ns 7\n"
            "lock_hold_sum_ns 100\nlock_longest_ns 50\npage_bytes 4096\nlongest_room_wait_us 4\n"
            "largest_value_bytes 9\ncluster_groups 2\nsmall_eviction_age_ms 6\n");
  // Expect: the figures of a single group are unchanged.
  EXPECT_EQ(AddFigures({ParseFigures("a 1.50\n")}).front().value, "1.50");
}

TEST(FiguresTest, RatesAreReadableLargeAndSmall) {
  const std::vector<FigureChange> changes =
      CompareFigures(ParseFigures("a 0\nb 0\nc 9\n"), ParseFigures("a 1234567\nb 0.001\nc 3\n"), 1);
  EXPECT_EQ(FormatChanges(changes, [](const FigureChange&) { return true; }),
            "a  1234567    +1234567/s\n"
            "b    0.001      +0.001/s\n"
            "c        3      -6.000/s\n");
}

}  // namespace
}  // namespace farlook::cli
