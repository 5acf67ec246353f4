// A token measurement, so that the code stays usable; space checks the limits with real sizes.
#include "bench/micro/table_space.h"

#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(SpaceTest, TheIndexOfAGrowingTableIsMeasured) {
  const absl::StatusOr<IndexCost> cost = MeasureIndex(64 * kMiB, 60'000);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(cost->average_bytes_per_key, 8);
  EXPECT_GE(cost->worst_bytes_per_key_small, cost->average_bytes_per_key);
  EXPECT_EQ(cost->worst_bytes_per_key, 0);
  EXPECT_GE(cost->worst_bucket_reads, 1);
  EXPECT_LE(cost->worst_bucket_reads, 2);
  EXPECT_GT(cost->highest_load, 0);
  EXPECT_LE(cost->highest_load, 1);
}

TEST(SpaceTest, KeysThatDoNotFitAreAnError) { EXPECT_FALSE(MeasureIndex(16 * kMiB, 10'000'000).ok()); }

TEST(SpaceTest, AFullTableIsMeasuredFreshAndReused) {
  const absl::StatusOr<FillCost> cost = MeasureFill(64 * kMiB);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(cost->fresh, 0.5);
  EXPECT_LT(cost->fresh, 1);
  EXPECT_GT(cost->reused, 0.5);
  EXPECT_LT(cost->reused, 1);
}

TEST(SpaceTest, TheRoomForAMixIsMeasured) {
  const absl::StatusOr<kv::RoomFigures> room = MeasureRoomOf(32 * kMiB, /*workers=*/1, kv::Mix::kOneSize);
  ASSERT_TRUE(room.ok()) << room.status();
  EXPECT_GT(room->full, 0.7);
  EXPECT_EQ(room->damaged, 0u);
  EXPECT_GT(room->full_again, 0.7);
}

}  // namespace
}  // namespace farlook::bench
