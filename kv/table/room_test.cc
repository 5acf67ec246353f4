// Memory keeps its promises: how full a region gets before the first refusal, what still works when it is full, and
// what becomes free when items are deleted. Covers many sizes of regions, numbers of partitions and mixes of sizes.
// FARLOOK_FULL_LENGTH=1 uses regions up to 8 GiB: docs/verification.md.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/segment.h"
#include "kv/layout/test_region.h"
#include "kv/table/room_probe.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;

bool FullLength() { return std::getenv("FARLOOK_FULL_LENGTH") != nullptr; }

// The smallest region shows a sanitizer as much as all.
std::vector<uint64_t> RegionsInMiB() {
  if (kSanitized) return {32};
  if (FullLength()) return {32, 64, 128, 512, 2048, 8192};
  return {32, 64, 128};
}

std::vector<int> Workers() { return FullLength() ? std::vector<int>{1, 2, 4, 8, 16, 32, 64} : std::vector<int>{1, 64}; }

class RoomTest : public testing::TestWithParam<std::tuple<uint64_t, int>> {
 protected:
  uint64_t mib() const { return std::get<0>(GetParam()); }
  RoomProbeOptions options(uint64_t seed = 1) const {
    return {PartitionsFor(mib() * kMiB, std::get<1>(GetParam())), seed};
  }
  // Few long values are deleted at a time, and the reserve is a large part of their memory.
  static double LeastRefilled(Mix mix) { return mix == Mix::kLarge ? 0.65 : 0.8; }
  // Small items are many: testing them does not need gigabytes each time.
  bool takes_too_long(Mix mix) const { return mix == Mix::kTiny && mib() > (FullLength() ? 2048 : 32); }
};

TEST_P(RoomTest, AnyMixFillsTheRegionIsOverwrittenAndMakesRoomWhenDeleted) {
  for (int i = 0; i < kMixes; ++i) {
    const Mix mix = static_cast<Mix>(i);
    if (takes_too_long(mix)) continue;
    SCOPED_TRACE(absl::StrCat(MixName(mix)));
    TestMemory memory(mib() * kMiB);
    const auto figures = MeasureRoom(memory.span(), options(), mix, /*overwrites=*/kSanitized ? 2'000 : 20'000);
    ASSERT_TRUE(figures.ok()) << figures.status();
    const double promised = PromisedShare(mix, mib() * kMiB);
    EXPECT_GE(figures->full, promised);
    EXPECT_EQ(figures->overwritten, figures->overwrites);
    // The share of everything deleted so far: a mix that fits more in one round finds less in the next.
    double sum = 0;
    for (int round = 0; round < 3; ++round) {
      sum += figures->refilled[round];
      EXPECT_GE(sum / (round + 1), LeastRefilled(mix)) << "round " << round;
    }
    EXPECT_GE(figures->nearly_empty, 0.9);
    EXPECT_GE(figures->full_again, promised);
    EXPECT_EQ(figures->damaged, 0u);
    EXPECT_LT(figures->most_steps, RoomProbe::kMostSteps);
  }
}

TEST_P(RoomTest, SizesThatDriftAreNotRefused) {
  if (mib() > (FullLength() ? 512 : 32)) return;  // it moves many times its contents
  TestMemory memory(mib() * kMiB);
  auto probe = RoomProbe::Create(memory.span(), options());
  ASSERT_TRUE(probe.ok()) << probe.status();
  const double share = PromisedShare(Mix::kUniform, mib() * kMiB) - 0.02;
  EXPECT_GT(Drift(probe->get(), share), share);
  EXPECT_EQ((*probe)->Overwrite(2'000), 2'000u);
  EXPECT_EQ((*probe)->Damaged(), 0u);
}

// A client that knows the seed can choose keys of one bucket: a segment is split as soon as that bucket is full.
TEST_P(RoomTest, KeysOfChosenHashesGiveTheIndexsMemoryBack) {
  const uint64_t kKeys = std::min<uint64_t>(60'360, mib() * 200);
  TestMemory memory(mib() * kMiB);
  auto probe = RoomProbe::Create(memory.span(), options());
  ASSERT_TRUE(probe.ok()) << probe.status();
  std::vector<std::string> keys;
  for (uint64_t i = 0; keys.size() < kKeys; ++i) {
    std::string key = absl::StrCat("chosen", i);
    if (BucketOf((*probe)->table().HashOf(key)) != 7) continue;
    const Code code = (*probe)->PutKey(key);
    if (code == Code::kNoMemory || code == Code::kIndexFull) break;
    ASSERT_EQ(code, Code::kOk);
    keys.push_back(std::move(key));
  }
  EXPECT_GT(keys.size(), 100u);
  for (const std::string& key : keys) ASSERT_EQ((*probe)->DeleteKey(key), Code::kOk);
  (*probe)->Rest(1'000'000'000);
  (*probe)->Fill(Mix::kOneSize);
  EXPECT_GE((*probe)->Share(), PromisedShare(Mix::kOneSize, mib() * kMiB));
  EXPECT_LE((*probe)->table().stats().index_bytes, mib() * kMiB / 10);
}

INSTANTIATE_TEST_SUITE_P(Regions, RoomTest,
                         testing::Combine(testing::ValuesIn(RegionsInMiB()), testing::ValuesIn(Workers())),
                         [](const testing::TestParamInfo<RoomTest::ParamType>& param) {
                           return absl::StrCat(std::get<0>(param.param), "MiB", std::get<1>(param.param), "Workers");
                         });

}  // namespace
}  // namespace farlook::kv
