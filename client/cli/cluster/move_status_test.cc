#include "client/cli/cluster/move_status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Json(absl::string_view line) {
  const std::optional<JsonLine> json = MoveLineToJson(line);
  return json.has_value() ? json->ToString() : "";
}

TEST(MoveStatusTest, FindsItsLinesAmongOthers) {
  const auto status = ParseMoveStatus(
      "group kv.2\nepoch 7\nprimary tcp://a:1 0123456789abcdef\ntaking kv.0 0-682,4000 items 12 of 345\n"
      "taken kv.1\ngiving kv.3 7-9\ngiving kv.4 11\nfailed kv.5 is gone: it has no server\n");
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_TRUE(status->taking.has_value());
  EXPECT_EQ(status->taking->from, "kv.0");
  EXPECT_EQ(kv::FormatSlots(status->taking->slots), "0-682,4000");
  EXPECT_EQ(status->taking->items, 12u);
  EXPECT_EQ(status->taking->estimate, 345u);
  EXPECT_EQ(status->taking->waits, "");
  EXPECT_THAT(status->taken, ElementsAre("kv.1"));
  ASSERT_EQ(status->giving.size(), 2u);
  EXPECT_EQ(status->giving[1].to, "kv.4");
  EXPECT_EQ(kv::FormatSlots(status->giving[0].slots), "7-9");
  EXPECT_EQ(status->failed, "kv.5 is gone: it has no server");
  EXPECT_FALSE(status->none());
}

TEST(MoveStatusTest, OneThatWaitsSaysWhy) {
  const auto status = ParseMoveStatus("taking kv.0 5 waits its primary is not reached\n");
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->taking->waits, "its primary is not reached");
}

TEST(MoveStatusTest, NothingMoves) {
  for (const absl::string_view text : {"", "group g\nepoch 1\n", "failed of late\n"}) {
    const auto status = ParseMoveStatus(text);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->none());
  }
}

TEST(MoveStatusTest, WhatIsNotUnderstoodIsAnError) {
  for (const absl::string_view text :
       {"taking", "taking kv.0", "taking kv.0 items 1 of 2", "taking kv.0 0-9", "taking kv.0 0-9 items", "taken",
        "taking kv.0 0-9 items 1 of many", "taking kv.0 0-4096 items 1 of 2", "giving kv.0", "giving kv.0 9-0"}) {
    const absl::Status status = ParseMoveStatus(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("malformed")) << text;
    EXPECT_EQ(Json(text), "") << text;
  }
}

TEST(MoveStatusTest, LinesAreJsonToo) {
  EXPECT_EQ(Json("taking kv.0 0-682 items 1 of 2"),
            R"({"taking_from":"kv.0","slot_ranges":"0-682","items":1,"items_estimate":2})");
  EXPECT_EQ(Json("taking kv.0 7 waits for a while"),
            R"({"taking_from":"kv.0","slot_ranges":"7","waits":"for a while"})");
  EXPECT_EQ(Json("taken kv.0"), R"({"taken_from":"kv.0"})");
  EXPECT_EQ(Json("giving kv.2 7"), R"({"giving_to":"kv.2","slot_ranges":"7"})");
  EXPECT_EQ(Json("failed no room at b"), R"({"failed":"no room at b"})");
  EXPECT_EQ(Json("epoch 7"), "");
}

}  // namespace
}  // namespace farlook::cli
