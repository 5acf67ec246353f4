// Memory that the index frees without further writes, in a worker whose clock the test advances.
#include "server/executor/tidy.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

constexpr int64_t kMsNs = 1'000'000;
constexpr int kKeys = 100'000;

class TidyTest : public testing::Test {
 protected:
  TidyTest() : call_(t_.Connect()) {}

  // Writes directly to the table, as another worker would.
  void Fill() {
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = absl::StrCat("key", i);
      ASSERT_EQ(t_.table().Put(t_.table().HashOf(key), key, "", kv::Condition::kAlways, 0, t_.clock.now_ns).code,
                kv::Code::kOk);
    }
  }
  void Clear() {
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = absl::StrCat("key", i);
      t_.table().Delete(t_.table().HashOf(key), key, kv::Condition::kAlways, 0, t_.clock.now_ns);
    }
  }
  // Sleeps as a worker's thread does, with nothing but its own due time to wake it. Returns how often it woke.
  int SleepUntil(int64_t ns) {
    int wakes = 0;
    for (t_.PollAll(); t_.worker().due_ns() <= ns; ++wakes) {
      t_.clock.now_ns = std::max(t_.clock.now_ns, t_.worker().due_ns());
      t_.PollAll();
    }
    t_.clock.now_ns = ns;
    return wakes;
  }

  TestWorker t_{64 << 20};
  FakeCall* const call_;
};

TEST_F(TidyTest, TheIndexGivesItsMemoryBackAndThenTheWorkerSleeps) {
  const uint64_t empty = t_.table().stats().index_bytes;
  Fill();
  const uint64_t full = t_.table().stats().index_bytes;
  ASSERT_GT(full, 8 * empty);
  Clear();
  EXPECT_EQ(t_.Ask(call_, MakePut(1, "last", "v"))->code, kv::Code::kOk);
  ASSERT_NE(t_.worker().due_ns(), Worker::kNever);
  SleepUntil(t_.clock.now_ns + 10'000 * kMsNs);
  EXPECT_LE(t_.table().stats().index_bytes, 2 * empty);
  // Expect: no further wake-up is due.
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

// Expired items are removed without a write, and the memory that they used in the index is freed.
TEST_F(TidyTest, TheIndexGivesBackWhatExpired) {
  const uint64_t empty = t_.table().stats().index_bytes;
  kv::PutParams params;
  params.expiry_ms = ServerTime().At(t_.clock.now_ns) / 1000 + 5'000;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrCat("key", i);
    ASSERT_EQ(t_.table().Put(t_.table().HashOf(key), key, "", params, t_.clock.now_ns).code, kv::Code::kOk);
  }
  ASSERT_GT(t_.table().stats().index_bytes, 8 * empty);
  kv::RequestOptions options;  // these notify the worker that an item expires
  options.has_ttl = true;
  options.ttl_us = 5'000'000;
  std::string encoded(kv::RequestOptions::kMaxBytes, '\0');
  encoded.resize(options.Encode(encoded.data()));
  kv::Request last = MakePut(1, "last", "v");
  last.options = encoded;
  EXPECT_EQ(t_.Ask(call_, last)->code, kv::Code::kOk);
  SleepUntil(t_.clock.now_ns + 4'000 * kMsNs);
  ASSERT_EQ(t_.table().stats().keys, kKeys + 1u);
  SleepUntil(t_.clock.now_ns + 60'000 * kMsNs);
  EXPECT_EQ(t_.table().stats().keys, 0u);
  EXPECT_LE(t_.table().stats().index_bytes, 2 * empty);
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

TEST_F(TidyTest, AWorkerThatDoesNotWriteIsNotWoken) {
  Fill();
  Clear();
  t_.Ask(call_, MakeRequest(kv::RequestType::kGet, 1, "key1"));
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

TEST_F(TidyTest, APartitionThatIsLockedIsLookedAtLaterAndLessAndLessOften) {
  Fill();
  Clear();
  t_.Ask(call_, MakePut(1, "last", "v"));
  std::vector<std::unique_ptr<kv::LockedPartition>> locks;
  for (int i = 0; i < t_.table().partitions(); ++i) {
    locks.push_back(std::make_unique<kv::LockedPartition>(t_.locks().at(i)));
  }
  const int wakes = SleepUntil(t_.clock.now_ns + 10'000 * kMsNs);
  EXPECT_GT(wakes, 8);
  EXPECT_LT(wakes, 20);
  locks.clear();
  SleepUntil(t_.clock.now_ns + 10'000 * kMsNs);
  EXPECT_EQ(t_.worker().due_ns(), Worker::kNever);
}

}  // namespace
}  // namespace farlook::server
