#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
#include "client/cli/context/memory_cluster.h"
#include "client/cli/input/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

class ClusterCommandsTest : public CommandTest {
 protected:
  ClusterCommandsTest() {
    ForgetInterrupt();
    cluster_.set_copy_looks(0);
  }
  ~ClusterCommandsTest() override { ForgetInterrupt(); }

  Store* ToRunOn() override { return &cluster_; }
  MemoryCluster& cluster() { return cluster_; }

 private:
  MemoryCluster cluster_;
};

constexpr char kTwo[] = "kv.0 0-2047;kv.1 2048-4095";
constexpr char kTwoAndOne[] = "kv.0 0-2047;kv.1 2048-4095;kv.2";
constexpr char kThree[] = "kv.0 683-2047;kv.1 2730-4095;kv.2 0-682,2048-2729";

TEST_F(ClusterCommandsTest, AGroupIsAddedAndRemoved) {
  cluster().AddGroups(kTwoAndOne);
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), kThree);
  EXPECT_THAT(Out(), MatchesRegex("kv.0 -> kv.2: 683 slots \\(0-682\\)\n"
                                  "kv.1 -> kv.2: 682 slots \\(2048-2729\\)\n"
                                  "kv.0: 2048 slots, then 1365\n"
                                  "kv.1: 2048 slots, then 1366\n"
                                  "kv.2: 0 slots, then 1365\n"
                                  "(move .*\n)*move 1 of 2: kv.0 -> kv.2  done: 683 slots in .* s\n"
                                  "(move .*\n)*move 2 of 2: kv.1 -> kv.2  done: 682 slots in .* s\n"
                                  "done: 2 moves, 1365 slots, in .* s\n"));
  EXPECT_EQ(Err(), "");
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "nothing to do: kv.2 has its share\n");

  EXPECT_EQ(Run({"cluster", "remove", "kv.0", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), "kv.1 683-1364,2730-4095;kv.2 0-682,1365-2729");
  EXPECT_THAT(Out(), HasSubstr("kv.0: 1365 slots, then 0, and it leaves the cluster\n"));
  EXPECT_THAT(Out(), HasSubstr("group kv.0 is one of the cluster no more: its servers may be stopped\n"));
  // Expect: a group without slots just leaves, and the last one does not.
  cluster().AddGroup("kv.3", "");
  EXPECT_EQ(Run({"cluster", "remove", "kv.3", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Run({"cluster", "remove", "kv.1", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Run({"cluster", "remove", "kv.2", "--yes"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("group kv.2 is the last of the cluster"));
  EXPECT_EQ(cluster().ToString(), "kv.2 0-4095");
}

TEST_F(ClusterCommandsTest, WithJsonEachLineIsAnObject) {
  cluster().AddGroups(kTwoAndOne);
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes", "--json"}), ExitCode::kOk);
  EXPECT_THAT(
      Out(),
      MatchesRegex(
          "\\{\"move\":1,\"moves\":2,\"from\":\"kv.0\",\"to\":\"kv.2\",\"slots\":683,\"slot_ranges\":\"0-682\"\\}\n"
          "\\{\"move\":2,.*\\}\n"
          "\\{\"group\":\"kv.0\",\"slots\":2048,\"slots_after\":1365\\}\n"
          "\\{\"group\":\"kv.1\",.*\\}\n"
          "\\{\"group\":\"kv.2\",.*\\}\n"
          "(\\{.*\"items_per_second\":.*\\}\n)*"
          "\\{\"move\":1,\"moves\":2,\"from\":\"kv.0\",\"to\":\"kv.2\",\"slots\":683,\"done\":true,\"seconds\":.*\\}\n"
          "(\\{.*\"items_per_second\":.*\\}\n)*"
          "\\{\"move\":2,.*,\"done\":true,\"seconds\":.*\\}\n"
          "\\{\"moves\":2,\"slots\":1365,\"seconds\":.*\\}\n"));
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"moves\":0,\"slots\":0}\n");
}

TEST_F(ClusterCommandsTest, APlanIsOnlyShown) {
  cluster().AddGroups(kTwoAndOne);
  EXPECT_EQ(Run({"cluster", "rebalance", "--dry_run"}), ExitCode::kOk);
  const std::string plan = Out();
  EXPECT_THAT(plan, HasSubstr("kv.0 -> kv.2: 683 slots (0-682)\n"));
  EXPECT_EQ(Err(), "");
  // Expect: the same output if there is no terminal to ask at; then that is an error.
  EXPECT_EQ(Run({"cluster", "rebalance"}), ExitCode::kUsage);
  EXPECT_EQ(Out(), plan);
  EXPECT_EQ(
      Err(),
      "kv_cli: cluster: nothing was done: there is no terminal to confirm the plan on; add --yes to carry it out\n");
  set_mode(Mode::kBatch);
  EXPECT_EQ(Run({"cluster", "remove", "kv.1"}), ExitCode::kUsage);
  EXPECT_THAT(cluster().takes(), IsEmpty());
  // Expect: an empty plan needs no consent.
  cluster().AddGroups("kv.0 0-1365;kv.1 1366-2730;kv.2 2731-4095");
  EXPECT_EQ(Run({"cluster", "rebalance"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "nothing to do: each of 3 groups has its share\n");
}

TEST_F(ClusterCommandsTest, APlanThatIsOnlyShownTakesAMoveForDone) {
  cluster().AddGroups(kTwoAndOne);
  cluster().set_copy_looks(1000);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-682", {.group = "kv.2"}).ok());
  EXPECT_EQ(Run({"cluster", "rebalance", "--dry_run"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("kv.1 -> kv.2: 682 slots \\(2048-2729\\)\nkv.0: 1365 slots, then 1365\n(.*\n)*"));
  EXPECT_THAT(Err(), HasSubstr("a move is under way: kv.0 -> kv.2; the plan takes it for done"));
}

TEST_F(ClusterCommandsTest, ScatteredSlotsAreMovedInPieces) {
  std::string even, odd;
  for (int slot = 0; slot < 4096; ++slot) {
    std::string& text = slot % 2 == 0 || slot > 3000 ? even : odd;
    text += (text.empty() ? "" : ",") + std::to_string(slot);
  }
  cluster().AddGroups("kv.0 " + even + ";kv.1 " + odd);
  EXPECT_EQ(Run({"cluster", "remove", "kv.1", "--dry_run"}), ExitCode::kOk);
  const std::string out = Out();
  EXPECT_GT(std::count(out.begin(), out.end(), '\n'), 7 + 2);
  EXPECT_EQ(Run({"cluster", "rebalance", "--dry_run"}), ExitCode::kOk);
}

TEST_F(ClusterCommandsTest, TheNextCommandGoesOnAfterAnInterruption) {
  cluster().AddGroups(kTwoAndOne);
  cluster().set_copy_looks(3);
  cluster().set_admin_fault([count = 0](absl::string_view what, const std::string&) mutable {
    if (what == "status" && ++count == 6) raise(SIGINT);
    return absl::OkStatus();
  });
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes"}), ExitCode::kInterrupted);
  EXPECT_THAT(Err(), HasSubstr("the move kv.0 -> kv.2, 683 slots, continues without this command"));
  ForgetInterrupt();
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes"}), ExitCode::kOk);
  EXPECT_THAT(Err(), HasSubstr("a move is under way already, and is waited for"));
  EXPECT_EQ(cluster().ToString(), kThree);
  EXPECT_EQ(cluster().takes().size(), 2u);
}

TEST_F(ClusterCommandsTest, AFailureIsTold) {
  cluster().AddGroups(kTwoAndOne);
  cluster().set_failures({"", "kv.2 has no room"});
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes", "--json"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("given up by group kv.2: kv.2 has no room"));
  EXPECT_THAT(Out(), HasSubstr("{\"error\":\"failed\",\"message\":\"the move kv.1 -> kv.2, 682 slots, failed: "));
}

TEST_F(ClusterCommandsTest, GroupsThatAreNotThereAreNamed) {
  cluster().AddGroups(kTwo);
  EXPECT_EQ(Run({"cluster", "add", "kv.9", "--yes"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("there is no group \"kv.9\"; the cluster's groups are kv.0, kv.1. To have it, start its "
                               "servers with kv_server --listen=ADDRESS --group=URL/kv.9 --cluster=NAME"));
  EXPECT_THAT(Err(), HasSubstr("without --slots"));
  EXPECT_EQ(Run({"cluster", "remove", "kv.9", "--yes"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("there is no group \"kv.9\"; the cluster's groups are kv.0, kv.1"));
  EXPECT_EQ(Run({"cluster", "cancel", "--group=kv.9"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("kv_cli: cluster: the cluster has no group kv.9"));
  // Expect: a group that has not begun gets nothing, and the output says so.
  cluster().AddGroup("kv.2", "", /*serves=*/false);
  EXPECT_EQ(Run({"cluster", "add", "kv.2", "--yes"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("group kv.2 has no server that serves yet"));
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "nothing to do: each of 2 groups has its share\n");
  EXPECT_THAT(Err(), HasSubstr("group kv.2 is skipped"));
}

TEST_F(ClusterCommandsTest, AClusterThatIsNotWholeIsLeftAlone) {
  cluster().AddGroups("kv.0 0-2047;kv.1 2050-4095");
  EXPECT_EQ(Run({"cluster", "rebalance", "--dry_run"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("the cluster is not whole: slots 2048-2049 have no group: start one with kv_server "
                               "--slots=2048-2049"));
  cluster().AddGroup("kv.2", "2048-2049", /*serves=*/false);
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("group kv.2 has slots 2048-2049, and none of its servers serves: start them"));
  EXPECT_THAT(cluster().takes(), IsEmpty());
}

TEST_F(ClusterCommandsTest, AServerOfNoClusterIsNoHelp) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"cluster", "rebalance"},
                                                {"cluster", "add", "g"},
                                                {"cluster", "remove", "g", "--yes"}}) {
    EXPECT_EQ(Run(words), ExitCode::kError);
    EXPECT_THAT(Err(), HasSubstr("the server is not in a cluster"));
  }
  cluster().AddGroups(kTwo);
  cluster().set_admin_fault([](absl::string_view what, const std::string&) {
    return what == "map" ? absl::UnavailableError("it is gone") : absl::OkStatus();
  });
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("no server answers at shm:///test"));
}

TEST_F(ClusterCommandsTest, ServersOfAnEarlierReleaseSaySo) {
  cluster().AddGroups(kTwoAndOne);
  cluster().set_admin_fault([](absl::string_view what, const std::string&) {
    return what == "take" ? absl::UnimplementedError("upgrade the server") : absl::OkStatus();
  });
  EXPECT_EQ(Run({"cluster", "rebalance", "--yes"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("upgrade the server"));
}

TEST_F(ClusterCommandsTest, CancelFindsTheTaker) {
  cluster().AddGroups(kTwoAndOne);
  EXPECT_EQ(Run({"cluster", "cancel"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "nothing to do: no group takes slots\n");
  EXPECT_EQ(Run({"cluster", "cancel", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"cancelled\":false}\n");
  cluster().set_copy_looks(1000);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "7", {.group = "kv.2"}).ok());
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "8", {.group = "kv.1"}).ok());
  EXPECT_EQ(Run({"cluster", "cancel"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("name the group that is to take no more slots: --group=kv.1, or --group=kv.2"));
  EXPECT_EQ(Run({"cluster", "cancel", "--group=kv.1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "given up: kv.0 -> kv.1, 1 slot\n");
  EXPECT_EQ(Run({"cluster", "cancel", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"from\":\"kv.0\",\"to\":\"kv.2\",\"slots\":1,\"cancelled\":true}\n");
}

TEST_F(ClusterCommandsTest, StatusTellsOfMoves) {
  cluster().AddGroups(kTwoAndOne);
  cluster().set_copy_looks(10);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "7", {.group = "kv.2"}).ok());
  EXPECT_EQ(Run({"cluster", "status"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("group kv.2\nepoch 1\ntaking kv.0 7 items 1 of 10\n"));
  EXPECT_EQ(Run({"cluster", "status", "--group=kv.2", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("{\"epoch\":\"1\"}\n{\"taking_from\":\"kv.0\",\"slot_ranges\":\"7\",\"items\":2,"));
}

TEST_F(ClusterCommandsTest, WhatDoesNotFitIsSaid) {
  cluster().AddGroups(kTwo);
  using Words = std::vector<std::string>;
  for (const auto& [words, text] :
       {std::pair<Words, std::string>{{"cluster", "rebalanec"}, "did you mean rebalance?"},
        {{"cluster", "grow"}, "\"grow\" is none of status, handover, resize, add, remove, rebalance, cancel"},
        {{"cluster", "add"}, "name the group: cluster add GROUP"},
        {{"cluster", "remove", "--yes"}, "name the group: cluster remove GROUP"},
        {{"cluster", "rebalance", "kv.0"}, "cluster rebalance takes no operand"},
        {{"cluster", "cancel", "kv.0"}, "did you mean --group=kv.0?"},
        {{"cluster", "add", "--group=kv.0"}, "--group is not for cluster add: its group is an operand"},
        {{"cluster", "rebalance", "--group=kv.0"}, "--group is not for cluster rebalance"},
        {{"cluster", "status", "--yes"}, "--yes is not for cluster status"},
        {{"cluster", "cancel", "--dry_run"}, "--dry_run is not for cluster cancel"},
        {{"cluster", "resize", "--group=kv.0"}, "give the number of replicas: cluster resize REPLICAS"},
        {{"cluster", "resize", "3"}, "name a group of the cluster: --group=kv.0, or --group=kv.1"},
        {{"cluster", "resize", "two", "--group=kv.0"}, "\"two\" is no number of replicas"},
        {{"cluster", "resize", "0", "--group=kv.0"}, "\"0\" is no number of replicas"},
        {{"cluster", "resize", "3", "--group=kv.0", "--min_insync=0"}, "--min_insync: \"0\" is not a whole number"},
        {{"cluster", "status", "--min_insync=2"}, "--min_insync is not for cluster status"},
        {{"get", "k", "--yes"}, "--yes is not for get, only for delete, cluster"}}) {
    EXPECT_EQ(Run(words), ExitCode::kUsage);
    EXPECT_THAT(Err(), HasSubstr(text));
    EXPECT_THAT(Out(), Not(HasSubstr("slots")));
  }
  EXPECT_THAT(cluster().takes(), IsEmpty());
}

TEST_F(ClusterCommandsTest, HelpTellsOfAll) {
  EXPECT_EQ(Run({"help", "cluster"}), ExitCode::kOk);
  for (const std::string& part : ClusterParts()) EXPECT_THAT(Out(), HasSubstr("\n    cluster " + part + " "));
  EXPECT_THAT(Out(), HasSubstr("cluster status|handover|resize|add|remove|rebalance|cancel [ARG]\n"));
  EXPECT_THAT(Out(), HasSubstr("--dry_run "));
  EXPECT_THAT(ClusterParts(), ElementsAre("status", "handover", "resize", "add", "remove", "rebalance", "cancel"));
}

}  // namespace
}  // namespace farlook::cli
