#include "client/cli/cluster/mover.h"

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands/testing.h"
#include "client/cli/context/memory_cluster.h"
#include "client/cli/input/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Mover::Pace kFast = {.look_ms = 1, .line_ms = 0, .lost_ms = 300, .unseen_ms = 50};

class MoverTest : public testing::Test {
 protected:
  MoverTest() {
    CatchInterrupts();
    ForgetInterrupt();
    cluster_.AddGroups("kv.0 0-2047;kv.1 2048-4095;kv.2");
  }
  ~MoverTest() override { ForgetInterrupt(); }

  Mover& mover() { return mover_; }
  MemoryCluster& cluster() { return cluster_; }

  // Moves slots from kv.0 and from kv.1 to kv.2.
  ExitCode CarryBoth() {
    return mover_.Carry(
        {{"kv.0", "kv.2", kv::ParseSlots("0-682").value()}, {"kv.1", "kv.2", kv::ParseSlots("2048-2729").value()}});
  }
  // Calls `strike` at the `number`-th request of this kind.
  void At(absl::string_view what, int number, const std::function<absl::Status()>& strike) {
    cluster_.set_admin_fault([=, count = 0](absl::string_view asked, const std::string&) mutable {
      return asked == what && ++count == number ? strike() : absl::OkStatus();
    });
  }
  // Makes `count` status requests fail, beginning with the `first`-th.
  void LoseStatuses(int first, int count) {
    cluster_.set_admin_fault([=, number = 0](absl::string_view asked, const std::string&) mutable {
      if (asked != "status" || ++number < first || number >= first + count) return absl::OkStatus();
      return absl::UnavailableError("there is no primary");
    });
  }

  std::string Out() {
    console_.out().Flush();
    return out_.Content();
  }
  std::string Err() { return err_.Content(); }

  static constexpr char kAfterBoth[] = "kv.0 683-2047;kv.1 2730-4095;kv.2 0-682,2048-2729";
  static constexpr char kAfterOne[] = "kv.0 683-2047;kv.1 2048-4095;kv.2 0-682";
  static constexpr char kBefore[] = "kv.0 0-2047;kv.1 2048-4095;kv.2";

 private:
  MemoryCluster cluster_;
  ScratchFile out_, err_;
  Console console_{0, out_.fd(), err_.fd()};
  Options options_;
  const StoreSource connect_ = [this](const Options&) { return &cluster_; };
  const Context context_{"cluster", options_, {}, &cluster_, connect_, console_, Mode::kOneShot};
  Mover mover_{context_, kFast};
};

TEST_F(MoverTest, MovesAreCarriedOutOneAfterTheOther) {
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
  EXPECT_THAT(cluster().takes(), ElementsAre("kv.0>kv.2:0-682", "kv.1>kv.2:2048-2729"));
  EXPECT_THAT(Out(), HasSubstr("move 1 of 2: kv.0 -> kv.2  50%  3415 of 6830 items\n"));
  EXPECT_THAT(Out(), ContainsRegex("move 1 of 2: kv.0 -> kv.2  done: 683 slots in [0-9]+\\.[0-9] s\n"));
  EXPECT_THAT(Out(), ContainsRegex("done: 2 moves, 1365 slots, in [0-9]+\\.[0-9] s\n"));
  EXPECT_EQ(Err(), "");
  // Expect: if repeated, nothing is requested.
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().takes().size(), 2u);
}

TEST_F(MoverTest, ARefusalEndsThePlan) {
  At("take", 2, [] { return absl::FailedPreconditionError("kv.1 has no primary"); });
  EXPECT_EQ(CarryBoth(), ExitCode::kError);
  EXPECT_EQ(cluster().ToString(), kAfterOne);
  EXPECT_THAT(Err(), HasSubstr("cluster: the move kv.1 -> kv.2, 682 slots, failed: group kv.2 refuses: kv.1 has no "
                               "primary; its slots stay where they are"));
}

TEST_F(MoverTest, OneThatFailsInTheMiddleEndsThePlan) {
  cluster().set_failures({"no room\x1b"});
  EXPECT_EQ(CarryBoth(), ExitCode::kError);
  EXPECT_EQ(cluster().ToString(), kBefore);
  EXPECT_THAT(Err(), HasSubstr("failed: given up by group kv.2: no room\\x1b; its slots stay"));
  EXPECT_THAT(Err(), HasSubstr("`cluster rebalance` makes a new plan"));
  EXPECT_EQ(cluster().takes().size(), 1u);
  // Expect: the group's report of that failure is not attributed to its next move.
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
}

TEST_F(MoverTest, AFailoverInTheMiddleIsWaitedFor) {
  LoseStatuses(3, 20);
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
  EXPECT_EQ(cluster().takes().size(), 2u);
  EXPECT_THAT(Out(), HasSubstr("move 1 of 2: kv.0 -> kv.2  waits: no answer from kv.2 for 0 s: there is no primary\n"));
}

TEST_F(MoverTest, ALongOneIsNot) {
  LoseStatuses(3, 1'000'000);
  EXPECT_EQ(CarryBoth(), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("cluster: the move kv.0 -> kv.2, 683 slots: no server answers"));
  EXPECT_THAT(Err(), HasSubstr("it may continue"));
  EXPECT_THAT(Err(), HasSubstr("`cluster cancel --group=kv.2` gives it up"));
}

TEST_F(MoverTest, WhatIsNoFailoverEndsThePlanAtOnce) {
  At("take", 1, [] { return absl::PermissionDeniedError("the role admin is missing"); });
  EXPECT_EQ(CarryBoth(), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("the role admin is missing"));
  EXPECT_THAT(Err(), Not(HasSubstr("may continue")));
}

TEST_F(MoverTest, ABeginningWhoseAnswerIsLostIsAskedForAgain) {
  // Expect: the same whether the request or the reply was lost.
  for (const bool done : {false, true}) {
    At("take", 1, [=, this] {
      EXPECT_TRUE(!done || cluster().TakeSlots("kv.1", "2048-2729", {.group = "kv.2"}).ok());
      return absl::UnknownError("the connection broke");
    });
    EXPECT_EQ(done ? CarryBoth() : mover().Carry({{"kv.0", "kv.2", kv::ParseSlots("0-682").value()}}), ExitCode::kOk);
  }
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
  EXPECT_EQ(cluster().takes().size(), 2u);
}

TEST_F(MoverTest, WhatATakerForgotBeginsAgain) {
  At("status", 3, [this] {
    cluster().ForgetMoves();
    return absl::OkStatus();
  });
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
  EXPECT_EQ(cluster().takes().size(), 3u);
}

TEST_F(MoverTest, WhatATakerForgetsAlwaysDoesNot) {
  cluster().set_admin_fault([this](absl::string_view what, const std::string&) {
    if (what == "status") cluster().ForgetMoves();
    return absl::OkStatus();
  });
  EXPECT_EQ(CarryBoth(), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("given up by group kv.2: no reason given"));
  EXPECT_EQ(cluster().takes().size(), 5u);
}

TEST_F(MoverTest, OneThatWaitsSaysWhyAndGoesOn) {
  cluster().set_waits("kv.0 has no primary");
  At("status", 10, [this] {
    cluster().set_waits("");
    return absl::OkStatus();
  });
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("move 1 of 2: kv.0 -> kv.2  waits: kv.0 has no primary\n"));
}

TEST_F(MoverTest, AnInterruptionLeavesTheMoveGoingOn) {
  At("status", 3, [] {
    raise(SIGINT);
    return absl::OkStatus();
  });
  EXPECT_EQ(CarryBoth(), ExitCode::kInterrupted);
  EXPECT_THAT(
      Err(),
      HasSubstr("cluster: interrupted: the move kv.0 -> kv.2, 683 slots, continues without this command; `cluster "
                "rebalance` makes a new plan of what is then, `cluster cancel --group=kv.2` gives it up"));
  EXPECT_EQ(cluster().ToString(), kBefore);
  // Expect: the next command waits for it, and says so.
  ForgetInterrupt();
  const absl::StatusOr<ClusterState> state = mover().Settle();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(cluster().ToString(), kAfterOne);
  EXPECT_FALSE(IsMoving(*state));
  EXPECT_TRUE(CheckWhole(*state).ok());
  EXPECT_THAT(Err(),
              HasSubstr("cluster: a move is under way already, and is waited for: kv.0 -> kv.2, 683 slots (0-682)\n"));
  EXPECT_THAT(Out(), HasSubstr("\nkv.0 -> kv.2  100%  6830 of 6830 items\n"));
}

TEST_F(MoverTest, AnInterruptionBeforeTheFirstLeavesNothing) {
  raise(SIGINT);
  EXPECT_EQ(CarryBoth(), ExitCode::kInterrupted);
  EXPECT_THAT(Err(), HasSubstr("interrupted: no move of this plan is under way"));
  EXPECT_THAT(cluster().takes(), IsEmpty());
}

TEST_F(MoverTest, AMoveOfOthersThatIsGivenUpIsTold) {
  cluster().set_failures({"no room"});
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "5", {.group = "kv.1"}).ok());
  ASSERT_TRUE(mover().Settle().ok());
  EXPECT_THAT(Err(), HasSubstr("cluster: group kv.1 has given up its move: no room\n"));
}

TEST_F(MoverTest, AnotherMoveOfTheTakerIsWaitedFor) {
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "2000-2010", {.group = "kv.2"}).ok());
  EXPECT_EQ(CarryBoth(), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), "kv.0 683-1999,2011-2047;kv.1 2730-4095;kv.2 0-682,2000-2010,2048-2729");
}

TEST_F(MoverTest, SettlingEndsWhereSlotsHaveNoGroup) {
  cluster().AddGroups("kv.0 0-2047;kv.1 2050-4095");
  const absl::StatusOr<ClusterState> state = mover().Settle();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(std::string(CheckWhole(*state).message()), HasSubstr("not whole: slots 2048-2049 have no group"));
}

TEST_F(MoverTest, SettlingWithoutAServerEndsAtOnce) {
  LoseStatuses(1, 1);
  EXPECT_TRUE(absl::IsUnavailable(mover().Settle().status()));
}

TEST_F(MoverTest, AGroupLeavesWhenItHasGivenAll) {
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-2047", {.group = "kv.1"}).ok());
  EXPECT_EQ(mover().Leave("kv.1"), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("group kv.1 cannot leave the cluster yet: it has slots"));
  EXPECT_EQ(mover().Leave("kv.0"), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), "kv.1 0-4095;kv.2");
  EXPECT_THAT(Out(), HasSubstr("group kv.0 is one of the cluster no more: its servers may be stopped\n"));
}

TEST_F(MoverTest, ALeaveWhoseAnswerIsLostIsDoneOnce) {
  At("leave", 1, [this] {
    EXPECT_TRUE(cluster().LeaveCluster({.group = "kv.2"}).ok());
    return absl::UnknownError("the connection broke");
  });
  EXPECT_EQ(mover().Leave("kv.2"), ExitCode::kOk);
  EXPECT_EQ(cluster().ToString(), "kv.0 0-2047;kv.1 2048-4095");
}

TEST_F(MoverTest, ALeaveThatGetsNoAnswerFails) {
  LoseStatuses(1, 1'000'000);
  EXPECT_EQ(mover().Leave("kv.2"), ExitCode::kError);
  EXPECT_THAT(Out(), HasSubstr("group kv.2  waits: no answer from a group"));
}

TEST_F(MoverTest, ACancelWhoseAnswerIsLostIsAskedForAgain) {
  cluster().set_copy_looks(1000);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-682", {.group = "kv.2"}).ok());
  At("cancel", 1, [] { return absl::UnknownError("the connection broke"); });
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("given up: kv.0 -> kv.2, 683 slots\n"));
  raise(SIGINT);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-682", {.group = "kv.2"}).ok());
  At("cancel", 1, [] { return absl::UnknownError("the connection broke"); });
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kInterrupted);
  EXPECT_THAT(Err(),
              HasSubstr("interrupted: the move kv.0 -> kv.2, 683 slots, is asked to be given up, and is not yet"));
}

TEST_F(MoverTest, AnInterruptedLeaveCanGoOn) {
  raise(SIGINT);
  At("leave", 1, [] { return absl::UnavailableError("there is no primary"); });
  EXPECT_EQ(mover().Leave("kv.2"), ExitCode::kInterrupted);
  EXPECT_THAT(Err(), HasSubstr("interrupted: group kv.2 is one of the cluster still; `cluster remove kv.2` goes on"));
}

TEST_F(MoverTest, AMoveIsGivenUpUnlessItIsTooLate) {
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("nothing to do: group kv.2 takes no slots\n"));
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-682", {.group = "kv.2"}).ok());
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("given up: kv.0 -> kv.2, 683 slots\n"));
  EXPECT_EQ(cluster().ToString(), kBefore);
  // Expect: slots that are given already are not taken back.
  cluster().set_copy_looks(0);
  ASSERT_TRUE(cluster().TakeSlots("kv.0", "0-682", {.group = "kv.2"}).ok());
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("the move kv.0 -> kv.2, 683 slots, is not given up: the slots are given already"));
  // Expect: a move is not reported as cancelled if the reply was lost.
  ASSERT_TRUE(mover().Settle().ok());
  cluster().set_copy_looks(1);
  ASSERT_TRUE(cluster().TakeSlots("kv.1", "2048-2729", {.group = "kv.2"}).ok());
  cluster().set_admin_fault([](absl::string_view what, const std::string&) {
    return what == "cancel" ? absl::UnknownError("the connection broke") : absl::OkStatus();
  });
  EXPECT_EQ(mover().Cancel("kv.2"), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("too late, it is done: kv.1 -> kv.2, 682 slots\n"));
  EXPECT_EQ(cluster().ToString(), kAfterBoth);
}

}  // namespace
}  // namespace farlook::cli
