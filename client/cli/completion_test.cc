#include "client/cli/completion.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(CompletionTest, CompletesCommands) {
  EXPECT_EQ(Complete("g").insert, "et");
  EXPECT_THAT(Complete("get").candidates, ElementsAre("get", "gettouch"));
  EXPECT_EQ(Complete("  del").insert, "ete ");
  EXPECT_THAT(Complete("").candidates, Contains("quit"));
  EXPECT_THAT(Complete("ex").candidates, ElementsAre("exists", "export"));
  EXPECT_EQ(Complete("ex").insert, "");
  EXPECT_EQ(Complete("i").insert, "") << "import, insert";
  EXPECT_EQ(Complete("put").insert, " ");
  EXPECT_THAT(Complete("zzz").candidates, IsEmpty());
}

TEST(CompletionTest, CompletesFlagsOfTheCommand) {
  EXPECT_EQ(Complete("get --j").insert, "son ");
  EXPECT_EQ(Complete("put k --fi").insert, "le=");
  EXPECT_THAT(Complete("get --").candidates, Contains("--print_version"));
  EXPECT_THAT(Complete("get --").candidates, Not(Contains("--file=")));
  EXPECT_THAT(Complete("get --").candidates, Not(Contains("--address="))) << "not within a session";
  EXPECT_THAT(Complete("nonsense --").candidates, IsEmpty());
}

TEST(CompletionTest, CompletesWhatHelpExplains) {
  EXPECT_EQ(Complete("help wa").insert, "tch ");
  EXPECT_THAT(Complete("help get ").candidates, IsEmpty());
}

TEST(CompletionTest, CompletesPartsOfCluster) {
  EXPECT_EQ(Complete("cluster reb").insert, "alance ");
  EXPECT_THAT(Complete("cluster ").candidates,
              ElementsAre("add", "cancel", "handover", "rebalance", "remove", "resize", "status"));
  EXPECT_THAT(Complete("cluster add ").candidates, IsEmpty());
  EXPECT_THAT(Complete("cluster add --").candidates, Contains("--dry_run"));
}

TEST(CompletionTest, KeysAreNotCompleted) {
  EXPECT_THAT(Complete("get ").candidates, IsEmpty());
  EXPECT_THAT(Complete("get k").candidates, IsEmpty());
}

}  // namespace
}  // namespace farlook::cli
