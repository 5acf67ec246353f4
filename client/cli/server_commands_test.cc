#include <string>

#include "client/cli/commands.h"
#include "client/cli/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class ServerCommandsTest : public CommandTest {};

TEST_F(ServerCommandsTest, StatPrintsFigures) {
  store().set_server_stats(std::string("requests 5\nhuge_pages 2 MiB"));
  EXPECT_EQ(Run({"stat"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "requests 5\nhuge_pages 2 MiB\n");
  EXPECT_EQ(Run({"stat", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"requests\":5,\"huge_pages\":\"2 MiB\"}\n");
  EXPECT_EQ(Run({"stat", "--client"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("operations "));
  store().set_server_stats(absl::UnavailableError("gone"));
  EXPECT_EQ(Run({"stat"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("kv_cli: stat: no server answers at shm:///test"));
}

TEST_F(ServerCommandsTest, WatchPrintsRates) {
  EXPECT_EQ(Run({"watch", "--count=2", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("requests "));
  EXPECT_THAT(Out(), HasSubstr("/s\n"));
  EXPECT_THAT(Out(), Not(HasSubstr("huge_pages"))) << "only what changed";
  EXPECT_EQ(store().operations(), 3u);
  EXPECT_EQ(Run({"watch", "--count=1", "--interval_ms=1", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("\\{\"time\":\".*Z\",\"seconds\":.*,\"figures\":\\{\"requests\":5,.*\\},"
                                  "\"per_second\":\\{\"requests\":.*\\}\\}\n"));
}

TEST_F(ServerCommandsTest, WatchGoesOnWhenTheServerComesBack) {
  store().set_fault([&](uint64_t number, const client::Operation&) {
    if (number == 4) store().set_incarnation(2);
    return number == 2 ? absl::UnavailableError("") : absl::OkStatus();
  });
  EXPECT_EQ(Run({"watch", "--count=4", "--interval_ms=1"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("no server"));
  EXPECT_THAT(Err(), HasSubstr("started anew"));
  EXPECT_EQ(store().operations(), 5u);
}

TEST_F(ServerCommandsTest, WatchOfNoServerEndsAtOnce) {
  store().set_fault([](uint64_t, const client::Operation&) { return absl::UnavailableError(""); });
  EXPECT_EQ(Run({"watch"}), ExitCode::kError);
  EXPECT_EQ(store().operations(), 1u);
}

TEST_F(ServerCommandsTest, PingPrintsTheRoundTrip) {
  EXPECT_EQ(Run({"ping"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("answer from shm:///test in [0-9.]+ us\n"));
  EXPECT_EQ(Run({"ping", "--count=3", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("3 answers: least "));
  EXPECT_EQ(Run({"ping", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("\\{\"address\":\"shm:///test\",\"round_trip_us\":[0-9.e-]+\\}\n"));
  store().set_fault([](uint64_t, const client::Operation&) { return absl::DeadlineExceededError(""); });
  EXPECT_EQ(Run({"ping", "--timeout_ms=50"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("no answer within 50 ms"));
}

}  // namespace
}  // namespace farlook::cli
