#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

class CounterCommandsTest : public CommandTest {};

TEST_F(CounterCommandsTest, FromCreateToDelete) {
  EXPECT_EQ(Run({"counter", "c", "create", "5"}), ExitCode::kOk);
  EXPECT_EQ(Run({"incr", "c"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "6\n");
  EXPECT_EQ(Run({"incr", "c", "10"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "16\n");
  EXPECT_EQ(Run({"decr", "c", "20"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "-4\n");
  EXPECT_EQ(Run({"decr", "c"}), ExitCode::kOk);
  EXPECT_EQ(Run({"counter", "c"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "-5\n");
  EXPECT_EQ(Run({"counter", "c", "delete"}), ExitCode::kOk);
  EXPECT_EQ(Run({"counter", "c"}), ExitCode::kNotFound);
  EXPECT_EQ(Err(), "kv_cli: counter: no such counter \"c\"\n");
  EXPECT_EQ(Run({"incr", "c"}), ExitCode::kNotFound);
}

TEST_F(CounterCommandsTest, IncrementsMayCreate) {
  EXPECT_EQ(Run({"incr", "--create", "c"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "1\n");
  EXPECT_EQ(Run({"incr", "--create", "--initial=100", "c", "5"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "6\n");
  EXPECT_EQ(Run({"decr", "--create", "--initial=100", "--ttl=30s", "d", "5"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "95\n");
  EXPECT_EQ(store().counter_ttls()["d"], 30'000);
  EXPECT_FALSE(store().counter_ttls().contains("c"));
  EXPECT_EQ(Run({"incr", "--ttl=30s", "c"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"incr", "--initial=5", "c"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"incr", "--create", "--initial=x", "c"}), ExitCode::kUsage);
}

TEST_F(CounterCommandsTest, JsonHasKeyAndValue) {
  store().counters()["c"] = 41;
  EXPECT_EQ(Run({"incr", "--json", "c"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"c\",\"counter\":42}\n");
}

TEST_F(CounterCommandsTest, ConditionsHaveTheirOwnExitCode) {
  store().counters()["c"] = 7;
  EXPECT_EQ(Run({"counter", "c", "create"}), ExitCode::kConditionFailed);
  EXPECT_THAT(Err(), HasSubstr("counter \"c\" exists already: left as it is"));
  EXPECT_EQ(Run({"counter", "c", "swap", "1", "2"}), ExitCode::kConditionFailed);
  EXPECT_THAT(Err(), HasSubstr("counter \"c\" is 7: left as it is"));
  EXPECT_EQ(Run({"counter", "c", "swap", "7", "2"}), ExitCode::kOk);
  EXPECT_EQ(store().counters()["c"], 2);
}

TEST_F(CounterCommandsTest, NegativeNumbersFollowTwoDashes) {
  EXPECT_EQ(Run({"counter", "c", "create", "--", "-9"}), ExitCode::kOk);
  EXPECT_EQ(store().counters()["c"], -9);
}

TEST_F(CounterCommandsTest, ValuesAndCountersAreToldApart) {
  store().Put("v", "text");
  store().counters()["c"] = 1;
  EXPECT_EQ(Run({"incr", "v"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("key \"v\" names a value, not a counter"));
  EXPECT_EQ(Run({"get", "c"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("key \"c\" names a counter, not a value"));
}

TEST_F(CounterCommandsTest, NonsenseIsRefusedBeforeAnythingIsDone) {
  store().counters()["c"] = 1;
  EXPECT_EQ(Run({"incr", "c", "many"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("\"many\" is no number"));
  EXPECT_EQ(Run({"counter", "c", "reset"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"counter", "c", "swap", "1"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"counter", "c", "delete", "1"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"incr", "--key_encoding=hex", "1"}), ExitCode::kUsage);
  EXPECT_EQ(store().operations(), 0u);
}

TEST_F(CounterCommandsTest, AnUnknownOutcomeSaysHowToFindOut) {
  store().set_fault([](uint64_t, const client::Operation&) { return absl::UnknownError("gone"); });
  EXPECT_EQ(Run({"incr", "c"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("`counter KEY` prints the value"));
}

}  // namespace
}  // namespace farlook::cli
