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

TEST_F(ScanCommandsTest, KeysWithAPrefixAreDeleted) {
  EXPECT_EQ(Run({"delete", "--prefix=user:", "--dry_run"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "2 keys with the prefix \"user:\"\n");
  EXPECT_EQ(Run({"delete", "--prefix=user:"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--yes"));
  EXPECT_EQ(store().items().size(), 3u);
  EXPECT_EQ(Run({"delete", "--prefix=user:", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "deleted 2 keys\n");
  EXPECT_EQ(store().items().count("other"), 1u);
  EXPECT_EQ(Run({"delete", "--prefix=user:", "--yes", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"deleted\":0,\"changed\":0}\n");
  for (int i = 0; i < 1000; ++i) store().Put(absl::StrCat("many", i), "x");
  EXPECT_EQ(Run({"delete", "--prefix=", "--yes", "--in_flight=7"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "deleted 1001 keys\n");
  EXPECT_TRUE(store().items().empty());
}

TEST_F(ScanCommandsTest, WhatIsStoredAgainMeanwhileStays) {
  for (int i = 0; i < 10; ++i) store().Put(absl::StrCat("many", i), "x");
  // At the first delete, and before it is executed, another client stores a key that the scan has seen.
  store().set_fault([&](uint64_t, const client::Operation& operation) {
    if (operation.key == "many3") store().items()["many3"].version = 1000;
    return absl::OkStatus();
  });
  EXPECT_EQ(Run({"delete", "--prefix=many", "--yes"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "deleted 9 keys; 1 were stored again meanwhile, and stay\n");
  EXPECT_EQ(store().items().count("many3"), 1u);
}

TEST_F(ScanCommandsTest, AFailureEndsADelete) {
  for (int i = 0; i < 1000; ++i) store().Put(absl::StrCat("many", i), "x");
  store().set_fault([&](uint64_t number, const client::Operation&) {
    return number > 100 ? absl::UnavailableError("gone") : absl::OkStatus();
  });
  EXPECT_EQ(Run({"delete", "--prefix=many", "--yes", "--in_flight=4"}), ExitCode::kError);
  EXPECT_EQ(Out(), "deleted 100 keys\n");
  EXPECT_EQ(Run({"delete"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--prefix"));
  EXPECT_EQ(Run({"delete", "key", "--prefix=x"}), ExitCode::kUsage);
}

TEST_F(ScanCommandsTest, KeysWithAPrefixAreExported) {
  EXPECT_EQ(Run({"export", "--prefix=user:", "--format=tsv"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:1\tone\nuser:2\tt\\two\tttl_ms=30000\n");
  EXPECT_THAT(Err(), HasSubstr("exported 2 pairs"));
  EXPECT_EQ(Run({"export", "--prefix=", "--format=tsv"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("other\tx\n"));
  EXPECT_EQ(Run({"export", "--prefix=absent"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Run({"export", "--prefix=x", "key"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"export", "--prefix=x", "--keys=-"}), ExitCode::kUsage);
  // Values come with the scan, numbers of counters are read. A counter that goes meanwhile is left out.
  store().counters()["user:hits"] = 7;
  store().counters()["user:gone"] = 8;
  store().set_fault([&](uint64_t, const client::Operation& operation) {
    return operation.key == "user:hits" ? absl::OkStatus() : absl::NotFoundError("");
  });
  EXPECT_EQ(Run({"export", "--prefix=user:", "--format=tsv"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "user:1\tone\nuser:2\tt\\two\tttl_ms=30000\nuser:hits\t\tcounter=7\n");
  EXPECT_THAT(Err(), HasSubstr("exported 3 pairs"));
}

TEST_F(ScanCommandsTest, LongValuesAreFound) {
  store().Put("long", std::string(1000, 'x'));
  EXPECT_EQ(Run({"bigkeys", "--limit=2"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "1000\tlong\n4\tuser:2\n");
  EXPECT_EQ(Run({"bigkeys", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "4\tuser:2\n3\tuser:1\n");
  EXPECT_EQ(Run({"bigkeys", "--json", "long"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"long\",\"value_bytes\":1000}\n");
}

TEST_F(ScanCommandsTest, KeysAreCountedByLengthAndTimeToLive) {
  store().Put("long", std::string(1000, 'x'));
  store().Put("empty", "");
  EXPECT_EQ(Run({"histogram"}), ExitCode::kOk);
  EXPECT_EQ(Out(),
            "5 keys of 26 bytes, 0 of them counters, with 1008 bytes of values\n"
            "\nlengths of values\n"
            "no bytes                         1   20.0 %\n"
            "up to 64 bytes                   3   60.0 %\n"
            "up to 1 KiB                      1   20.0 %\n"
            "\nexpire\n"
            "within a minute                  1   20.0 %\n"
            "never                            4   80.0 %\n");
  EXPECT_EQ(Run({"histogram", "--json", "user:"}), ExitCode::kOk);
  EXPECT_EQ(Out(),
            "{\"keys\":2,\"counters\":0,\"key_bytes\":12,\"value_bytes\":7}\n"
            "{\"value_bytes_up_to\":64,\"keys\":2}\n"
            "{\"ttl_ms_up_to\":60000,\"keys\":1}\n"
            "{\"ttl_ms\":false,\"keys\":1}\n");
  EXPECT_EQ(Run({"histogram", "absent"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "0 keys of 0 bytes, 0 of them counters, with 0 bytes of values\n");
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
