#include <string>

#include "client/cli/commands/testing.h"
#include "client/cli/context/memory_store.h"
#include "client/cli/input/options.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ExpiryCommandsTest = CommandTest;

TEST_F(ExpiryCommandsTest, TimesHaveAUnitAndBounds) {
  EXPECT_EQ(*ParseTtl("1ms"), 1);
  EXPECT_EQ(*ParseTtl("500ms"), 500);
  EXPECT_EQ(*ParseTtl("30s"), 30'000);
  EXPECT_EQ(*ParseTtl("5m"), 300'000);
  EXPECT_EQ(*ParseTtl("2h"), 7'200'000);
  EXPECT_EQ(*ParseTtl("3660d"), kMaxTtlMs);
  for (const char* wrong : {"", "5", "s", "0s", "-1s", "3661d", "1.5s", "5w", "99999999999999999999d"}) {
    EXPECT_FALSE(ParseTtl(wrong).ok()) << wrong;
  }
}

TEST_F(ExpiryCommandsTest, AnItemIsPutTouchedAndPersisted) {
  EXPECT_EQ(Run({"put", "--ttl=30s", "k", "v"}), ExitCode::kOk);
  EXPECT_EQ(Run({"ttl", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "30000ms\n");
  EXPECT_EQ(Run({"put", "--keep_ttl", "k", "w"}), ExitCode::kOk);
  EXPECT_EQ(Run({"ttl", "--json", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"expires\":true,\"left_ms\":30000,\"version\":2}\n");
  EXPECT_EQ(Run({"touch", "k", "5m"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(store().items()["k"].ttl_ms, 300'000);
  EXPECT_EQ(Run({"gettouch", "k", "2h"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "w");
  EXPECT_EQ(store().items()["k"].ttl_ms, 7'200'000);
  EXPECT_EQ(Run({"gettouch", "--json", "k", "2h"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"value\":\"w\",\"version\":2}\n");
  EXPECT_EQ(Run({"persist", "--json", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"version\":2}\n");
  EXPECT_EQ(Run({"ttl", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "never\n");
  EXPECT_EQ(Run({"ttl", "--json", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"expires\":false,\"version\":2}\n");
}

TEST_F(ExpiryCommandsTest, WhatIsAbsentOrNoTimeIsSaid) {
  EXPECT_EQ(Run({"touch", "k", "1s"}), ExitCode::kNotFound);
  EXPECT_EQ(Run({"persist", "k"}), ExitCode::kNotFound);
  EXPECT_EQ(Run({"ttl", "k"}), ExitCode::kNotFound);
  EXPECT_EQ(Run({"gettouch", "k", "1s"}), ExitCode::kNotFound);
  EXPECT_EQ(Run({"touch", "k", "soon"}), ExitCode::kUsage);
  EXPECT_EQ(Err(),
            "kv_cli: touch: \"soon\" is no time that an item can live: 1ms to 3660d, as 500ms, 30s, 5m, 2h, 7d\n");
  EXPECT_EQ(Run({"put", "--ttl=0s", "k", "v"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"put", "--ttl=1s", "--keep_ttl", "k", "v"}), ExitCode::kUsage);
  EXPECT_TRUE(store().items().empty());
}

}  // namespace
}  // namespace farlook::cli
