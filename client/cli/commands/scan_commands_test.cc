#include <csignal>
#include <string>

#include "client/cli/commands/testing.h"
#include "client/cli/context/memory_store.h"
#include "client/cli/input/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using testing::HasSubstr;

class ScanCommandsTest : public CommandTest {
 protected:
  ScanCommandsTest() {
    store().Put("user:1", "one");
    store().Put("user:2", "t\two");
    store().Put("other", "x");
    store().items()["user:2"].ttl_ms = 30'000;
  }
};

TEST_F(ScanCommandsTest, KeysAreListed) {
  EXPECT_EQ(Run({"scan"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "other\nuser:1\nuser:2\n");
  EXPECT_EQ(Err(), "");
  EXPECT_EQ(Run({"scan", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:1\nuser:2\n");
  EXPECT_EQ(Run({"scan", "absent"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Run({"scan", "--key_encoding=hex", "757365723a32"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:2\n");
  store().Put("a\nb\\", "x");
  EXPECT_EQ(Run({"scan", "a"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "a\\nb\\\\\n");
}

TEST_F(ScanCommandsTest, PropertiesFollowTheKey) {
  EXPECT_EQ(Run({"scan", "--values", "--ttls", "--versions", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:1\t1\tnever\tone\nuser:2\t2\t30000\tt\\two\n");
  EXPECT_EQ(Run({"scan", "--json", "--values", "--ttls", "--versions", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(),
            "{\"key\":\"user:1\",\"version\":1,\"expires\":false,\"value\":\"one\"}\n"
            "{\"key\":\"user:2\",\"version\":2,\"expires\":true,\"left_ms\":30000,\"value\":\"t\\two\"}\n");
  EXPECT_EQ(Run({"scan", "--json", "other"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"other\"}\n");
}

TEST_F(ScanCommandsTest, ALimitGivesACursorAndTheCursorContinues) {
  EXPECT_EQ(Run({"scan", "--limit=2"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "other\nuser:1\n");
  EXPECT_EQ(Err(), "continue with --cursor=user:1\n");
  EXPECT_EQ(Run({"scan", "--cursor=user:1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:2\n");
  EXPECT_EQ(Err(), "");
  EXPECT_EQ(Run({"scan", "--json", "--limit=1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"other\"}\n{\"cursor\":\"other\"}\n");
}

TEST_F(ScanCommandsTest, AnInterruptedScanSaysWhereToContinue) {
  CatchInterrupts();
  raise(SIGINT);
  EXPECT_EQ(Run({"scan"}), ExitCode::kInterrupted);
  EXPECT_EQ(Out(), "other\n");
  EXPECT_EQ(Err(), "continue with --cursor=other\n");
  EXPECT_EQ(Run({"count"}), ExitCode::kInterrupted);
  EXPECT_EQ(Out(), "");
  ForgetInterrupt();
}

TEST_F(ScanCommandsTest, KeysAreCounted) {
  EXPECT_EQ(Run({"count"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "3\n");
  EXPECT_EQ(Run({"count", "--json", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"count\":2}\n");
  EXPECT_EQ(Run({"count", "absent"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "0\n");
}

TEST_F(ScanCommandsTest, WrongInputIsExplained) {
  EXPECT_EQ(Run({"scan", "--key_encoding=hex", "x"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("prefix \"x\""));
  EXPECT_EQ(Run({"count", "--key_encoding=hex", "x"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "a", "b"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "--limit=0"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "--mib_per_s=0"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "--mib_per_s=x"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "--values=x"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"scan", "--cursor=no cursor"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("cursor"));
  EXPECT_EQ(Run({"count", "--limit=1"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--limit is not for count, only for scan"));
  EXPECT_EQ(Run({"get", "k", "--values"}), ExitCode::kUsage);
}

}  // namespace
}  // namespace farlook::cli
