// ClientCore and the steps of scans: writers between their READs, lost connections, deadlines, full queues.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client/op/scan_operation.h"
#include "client/testing/core_testing.h"
#include "kv/layout/limits.h"
#include "kv/read/scan.h"

namespace farlook::client {
namespace {

constexpr int kKeys = 2'000;

class CoreScanTest : public CoreTest {
 protected:
  CoreScanTest() {
    for (int i = 0; i < kKeys; ++i) {
      EXPECT_EQ(server_->Put(std::to_string(i), Pattern(i % 50, i)).code, kv::Code::kOk);
    }
  }

  std::unique_ptr<ScanOperation> StartStep(const kv::ScanPart& part = {}, int64_t timeout_ms = 0) {
    auto step = std::make_unique<ScanOperation>();
    step->part = part;
    step->filter.values = true;
    step->most_bytes = 64 << 10;
    step->timeout_ms = timeout_ms;
    core_->Start(step.get());
    return step;
  }
  void End(const ScanOperation& step) {
    PollFor(options_.timeout_ms + 1, step);
    Poll();
    ASSERT_TRUE(step.done);
    ASSERT_TRUE(step.status.ok()) << step.status;
  }

  // Walks to the end. While a step is under way, `turn` runs again and again until it has ended.
  std::map<std::string, std::string> Walk(const std::function<void(const ScanOperation&)>& turn = nullptr) {
    std::map<std::string, std::string> found;
    kv::ScanPart part;
    for (bool more = true; more && !HasFatalFailure();) {
      const auto step = StartStep(part);
      for (int i = 0; turn != nullptr && i < 10'000 && !step->done; ++i) {
        Poll();
        turn(*step);
      }
      End(*step);
      for (const kv::ScanItem& item : step->found.items) {
        found[std::string(step->found.KeyOf(item))] = std::string(step->found.ValueOf(item));
      }
      const kv::ScanPart whole = part;
      more = whole.After(step->covered, &part) || whole.Following(&part);
    }
    return found;
  }
  void ExpectAll(const std::map<std::string, std::string>& found) {
    for (int i = 0; i < kKeys; ++i) {
      const auto at = found.find(std::to_string(i));
      ASSERT_NE(at, found.end()) << i;
      EXPECT_EQ(at->second, Pattern(i % 50, i));
    }
  }
};

TEST_F(CoreScanTest, EachKeyIsFoundByReadsAlone) {
  Connect();
  const uint64_t executed = server_->executed;
  const auto found = Walk();
  ExpectAll(found);
  EXPECT_EQ(found.size(), size_t{kKeys});
  EXPECT_EQ(server_->executed, executed);
  ExpectNoViolations();
}

TEST_F(CoreScanTest, KeysThatStayAreFoundWhileTheTableGrowsBetweenReads) {
  Connect();
  network_.hold_reads = true;
  const auto found = Walk([this](const ScanOperation&) {
    for (int i = 0; i < 800; ++i) PutFiller();
    for (int i = 0; i < kKeys; i += 7) server_->Put(std::to_string(i), Pattern(i % 50, i));
    clock_.AdvanceMs(1);
    network_.ReleaseReads();
  });
  EXPECT_GT(server_->table().stats().splits, 0u);
  EXPECT_GT(core_->stats().directory_refreshes, 0u);
  ExpectAll(found);
}

// A segment is split, its memory leaves the index, and then looks as if the segment were empty.
TEST_F(CoreScanTest, MemoryThatLeftTheIndexIsNotBelieved) {
  Connect();
  char* const region = server_->region().data();
  const kv::DirectoryEntry old = EntryOf("17");
  SplitSegmentOf("17");
  kv::StoreWord(region + kv::kIndexStateOffset, kv::IndexState(IndexState().level(), IndexState().epoch() + 1).word());
  clock_.AdvanceMs(100);
  for (uint32_t number = 0; number < kv::kBuckets; ++number) {
    char* const bucket = region + old.offset() + number * kv::kBucketBytes;
    for (size_t i = 1; i < kv::kWordsPerBucket; ++i) kv::StoreWord(bucket + 8 * i, 0);
    kv::StoreWord(bucket, kv::BucketInfo(old.segment_id(), number, 0).word());
  }
  ExpectAll(Walk());
}

TEST_F(CoreScanTest, AStepContinuesOverALostConnection) {
  Connect();
  network_.hold_reads = true;
  int turns = 0;
  ExpectAll(Walk([this, &turns](const ScanOperation&) {
    if (++turns % 5 == 0) network_.Break();
    clock_.AdvanceMs(1);
    network_.ReleaseReads();
  }));
  EXPECT_GT(core_->stats().reconnects, 1u);
}

// READs of a segment that take long may fetch memory that has another use meanwhile.
TEST_F(CoreScanTest, AReadThatTookLongIsRepeated) {
  Connect();
  network_.hold_reads = true;
  const auto step = StartStep();
  Poll();
  clock_.AdvanceMs(kv::kMaxBucketReadNs / 1'000'000 + 1);
  const uint64_t before = network_.reads;
  network_.ReleaseReads();
  Poll();
  EXPECT_FALSE(step->done);
  network_.hold_reads = false;
  network_.ReleaseReads();
  End(*step);
  EXPECT_GT(network_.reads, before);
  EXPECT_GE(step->read_bytes, 3 * kv::kSegmentBytes);
}

TEST_F(CoreScanTest, ADeadlineEndsAStepAndTheNextWaitsForItsReads) {
  Connect();
  network_.hold_reads = true;
  auto late = StartStep({}, /*timeout_ms=*/20);
  auto next = StartStep({}, /*timeout_ms=*/10'000);
  PollFor(21, *late);
  EXPECT_EQ(late->status.code(), absl::StatusCode::kDeadlineExceeded);
  late.reset();
  EXPECT_FALSE(next->done);
  network_.hold_reads = false;
  network_.ReleaseReads();
  End(*next);
  EXPECT_FALSE(next->found.items.empty());
  ExpectAll(Walk());
}

TEST_F(CoreScanTest, AFullQueueHoldsAScanUpAndNoMore) {
  Connect();
  network_.read_room = 1;
  const auto found = Walk([this](const ScanOperation&) { network_.read_room = 3; });
  network_.read_room = SIZE_MAX;
  ExpectAll(found);
}

TEST_F(CoreScanTest, GetsAndStepsShareTheDirectory) {
  Connect();
  const int level = IndexState().level();
  while (IndexState().level() < level + 1) PutFiller();
  network_.hold_reads = true;
  auto get = Start(Kind::kGet, "17");
  auto step = StartStep();
  auto other = Start(Kind::kGet, "18");
  Poll();
  network_.hold_reads = false;
  network_.ReleaseReads();
  End(*step);
  PollFor(options_.timeout_ms, get->operation);
  PollFor(options_.timeout_ms, other->operation);
  EXPECT_EQ(get->result, Pattern(17, 17));
  EXPECT_EQ(other->result, Pattern(18, 18));
}

}  // namespace
}  // namespace farlook::client
