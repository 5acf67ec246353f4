#include "absl/status/status.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Tests that depend on devices are in tests/doctor.
class DoctorCommandTest : public CommandTest {};

TEST_F(DoctorCommandTest, AServerThatAnswersIsGood) {
  EXPECT_EQ(Run({"doctor", "shm:///other"}), ExitCode::kOk) << Err();
  EXPECT_THAT(Out(),
              StartsWith("good     a Farlook server serves reads at shm:///other\ngood     its CPU answers in "));
}

TEST_F(DoctorCommandTest, WithoutOperandItIsTheAddressOfTheSession) {
  EXPECT_EQ(Run({"doctor"}), ExitCode::kOk) << Err();
  EXPECT_THAT(Out(), HasSubstr("shm:///test"));
}

TEST_F(DoctorCommandTest, ACpuThatDoesNotAnswerIsTrouble) {
  store().set_fault(
      [](uint64_t, const client::Operation&) { return absl::DeadlineExceededError("no answer within 1000 ms"); });
  EXPECT_EQ(Run({"doctor"}), ExitCode::kError);
  EXPECT_THAT(Out(), HasSubstr("trouble  its process does not answer"));
}

TEST_F(DoctorCommandTest, Json) {
  EXPECT_EQ(Run({"doctor", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), StartsWith("{\"level\":\"good\",\"text\":\"a Farlook server serves reads at shm:///test\"}\n"));
}

TEST_F(DoctorCommandTest, ASessionKeepsItsAddress) {
  set_mode(Mode::kInteractive);
  EXPECT_EQ(Run({"doctor", "shm:///other"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("only be given when kv_cli starts"));
}

TEST_F(DoctorCommandTest, OfAnAddressThatLeavesAChoiceItSaysWhatWasTaken) {
  store().set_address("tcp://127.0.0.1:1 (not rdma: there is none)");
  EXPECT_EQ(Run({"doctor", "auto://127.0.0.1:1"}), ExitCode::kOk) << Out();
  EXPECT_THAT(Out(), HasSubstr("of that address it took tcp://127.0.0.1:1 (not rdma: there is none)\n"));
}

TEST_F(DoctorCommandTest, AnAddressThatIsNone) {
  EXPECT_EQ(Run({"doctor", "shm:relative"}), ExitCode::kError);
  EXPECT_THAT(Out(), HasSubstr("trouble"));
  EXPECT_THAT(Out(), HasSubstr("shm:///"));
}

}  // namespace
}  // namespace farlook::cli
