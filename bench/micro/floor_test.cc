// The figures themselves depend on the machine; this tests relations that hold on every machine, with room for noise.
#include "bench/micro/floor.h"

#include <sched.h>

#include "bench/micro/floor_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

TEST(FloorMemoryTest, MemoryIsThereAndSaysItsPages) {
  const absl::StatusOr<FloorMemory> huge = FloorMemory::Map(5 * kMiB, PageSize::k2MiB);
  ASSERT_TRUE(huge.ok()) << huge.status();
  EXPECT_EQ(huge->size(), 6 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge->data()) % (2 * kMiB), 0u);
  EXPECT_EQ(huge->data()[0], huge->data()[6 * kMiB - 1]);
  EXPECT_THAT(huge->pages(), HasSubstr("pages"));

  const absl::StatusOr<FloorMemory> small = FloorMemory::Map(1, PageSize::k4KiB);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->page_bytes(), 4096u);
  EXPECT_EQ(small->pages(), "4 KiB pages");
}

TEST(FloorMemoryTest, HugePagesOfAMappingAreFoundInSmaps) {
  constexpr char kSmaps[] =
      "1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nAnonHugePages:      2048 kB\nVmFlags: rd\n"
      "3000-5000 rw-p 00000000 00:00 0 [heap-1 x]\nAnonHugePages:      4096 kB\n"
      "7000-9000 r--p 00000000 00:00 0\nAnonHugePages:      8192 kB\n";
  EXPECT_EQ(TransparentHugeKib(kSmaps, 0x1000, 0x3000), 2048u);
  EXPECT_EQ(TransparentHugeKib(kSmaps, 0x2000, 0x4000), 6144u);
  EXPECT_EQ(TransparentHugeKib(kSmaps, 0x5000, 0x7000), 0u);
  EXPECT_EQ(TransparentHugeKib("", 0, 1), 0u);
}

TEST(FloorMemoryTest, TooMuchIsAnError) { EXPECT_FALSE(FloorMemory::Map(size_t{1} << 60, PageSize::k2MiB).ok()); }

class FloorTest : public testing::Test {
 protected:
  FloorMemory memory_ = *FloorMemory::Map(64 * kMiB, PageSize::k2MiB);
};

TEST_F(FloorTest, ADependentLoadTakesTime) {
  const double d = DependentLoadNs(memory_, 200'000);
  EXPECT_GT(d, 0.5);
  EXPECT_LT(d, 100'000);
}

TEST_F(FloorTest, ACopyTakesTime) { EXPECT_GT(ColdCopyNs(memory_, 1000, 100'000), 0.5); }

TEST_F(FloorTest, LinesOfLookupsTakeTimeAndMoreOfThemMore) {
  const double few = LookupLinesNs(memory_, 64, 160, 100'000);
  EXPECT_GT(few, 0.5);
  EXPECT_GT(LookupLinesNs(memory_, 64, 16'000, 100'000), few);
}

TEST_F(FloorTest, ALockedAddLeavesTheMemoryAsItWas) {
  EXPECT_GT(ColdLockedAddNs(memory_, 100'000), 0.5);
  for (size_t i = 0; i < memory_.size(); i += 4096) ASSERT_EQ(memory_.data()[i], 0x5a);
}

TEST(CacheLineTest, RoundTripsWork) {
  const absl::StatusOr<CpuPair> cpus = FirstTwoCpus();
  if (!cpus.ok()) GTEST_SKIP() << cpus.status();
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const absl::StatusOr<double> ns = CacheLineRoundTripNs(cpus->a, cpus->b, 1000);
  // On a busy machine the peer may have to wait for its CPU.
  if (!absl::IsDeadlineExceeded(ns.status())) {
    ASSERT_TRUE(ns.ok()) << ns.status();
    EXPECT_GT(*ns, 1);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(CacheLineTest, CpusThatAreNotThereAreRefused) {
  EXPECT_FALSE(CacheLineRoundTripNs(0, 0, 10).ok());
  EXPECT_FALSE(CacheLineRoundTripNs(0, CPU_SETSIZE - 1, 10).ok());
  EXPECT_FALSE(CacheLineRoundTripNs(-1, 0, 10).ok());
}

}  // namespace
}  // namespace farlook::bench
