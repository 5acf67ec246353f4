// A table, a reader of its memory, and writers that run between the reader's fetches.
#ifndef FARLOOK_KV_READ_LOOKUP_TESTING_H_
#define FARLOOK_KV_READ_LOOKUP_TESTING_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/test_region.h"
#include "kv/read/lookup.h"
#include "kv/table/table.h"

namespace farlook::kv {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int kRounds = kSanitized ? 1 : 20;
inline constexpr char kNone[] = "(none)";
inline constexpr char kAsk[] = "(would ask the server)";

class LookupTest : public testing::Test {
 protected:
  LookupTest() { Make(16 * kMiB); }

  // `rewrites`: puts are done in place where they fit. Most tests here are about puts that are not.
  void Make(uint64_t bytes, bool rewrites = false) {
    reader_.reset();
    table_.reset();
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.rewrites = rewrites;
    options.clock = &clock_;
    table_ = *Table::Create(memory_->span(), options);
    reader_ = std::make_unique<TestReader>(memory_->span());
  }

  WriteResult Put(absl::string_view key, absl::string_view value) {
    now_ += 1000;
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, now_);
  }
  void Delete(absl::string_view key) {
    ASSERT_EQ(table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code, Code::kOk);
  }

  // A write whose time was read after everything so far, then time passes.
  void PassQuarantine(int64_t ns = kQuarantineNs) {
    now_ += kMillisecond;
    Put("tick", "");
    table_->Delete(table_->HashOf("tick"), "tick", Condition::kAlways, 0, now_);
    now_ += ns;
  }

  std::string Get(absl::string_view key, Slot cached = Slot()) {
    const uint64_t gave_up = reader_->gave_up();
    const std::optional<std::string> value = reader_->Get(key, cached);
    return reader_->gave_up() != gave_up ? kAsk : value.value_or(kNone);
  }

  // Gets while `steps` run, in order, before the fetches of these numbers (from 0).
  std::string GetWith(absl::string_view key, std::map<int, std::function<void()>> steps, Slot cached = Slot()) {
    int n = 0;
    reader_->before_fetch = [&](const Range&) {
      const auto at = steps.find(n++);
      if (at != steps.end()) at->second();
    };
    std::string value = Get(key, cached);
    reader_->before_fetch = nullptr;
    EXPECT_TRUE(steps.empty() || n > steps.rbegin()->first) << "only " << n << " fetches";
    fetches_ = n;
    return value;
  }

  // Keys whose hash meets a condition.
  template <typename F>
  std::vector<std::string> Keys(size_t count, F condition, absl::string_view prefix = "k") {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      std::string key = absl::StrCat(prefix, i);
      if (condition(table_->HashOf(key))) keys.push_back(std::move(key));
    }
    return keys;
  }
  std::vector<std::string> KeysInBucketOf(const std::string& key, size_t count, const std::string& prefix = "k") {
    static auto& known = *new std::map<std::pair<std::string, std::string>, std::vector<std::string>>;
    std::vector<std::string>& keys = known[{key, prefix}];
    if (keys.size() < count) {
      const uint64_t hash = table_->HashOf(key);
      const auto same = [hash](uint64_t h) {
        return BucketOf(h) == BucketOf(hash) && PositionOf(h) >> 61 == PositionOf(hash) >> 61;
      };
      keys = Keys(count, same, prefix);
    }
    return {keys.begin(), keys.begin() + static_cast<int64_t>(count)};
  }
  // Found by search: "key"'s fingerprint, its bucket, its segment.
  std::vector<std::string> KeysWithFingerprintOfKey(size_t count) {
    const uint64_t hash = table_->HashOf("key");
    std::vector<std::string> keys = {"f60612854", "f214710853"};
    for (const std::string& key : keys) {
      const uint64_t h = table_->HashOf(key);
      EXPECT_EQ(FingerprintOf(h), FingerprintOf(hash));
      EXPECT_EQ(BucketOf(h), BucketOf(hash));
      EXPECT_EQ(PositionOf(h) >> 61, PositionOf(hash) >> 61);
    }
    keys.resize(count);
    return keys;
  }
  // Makes the segment of `key` split; main and overflow bucket of that hash were nearly empty before.
  void SplitSegmentOf(const std::string& key, const std::string& prefix = "s") {
    const uint64_t splits = table_->stats().splits;
    for (const std::string& filler : KeysInBucketOf(key, 2 * kSlotsPerBucket + 1, prefix)) {
      if (table_->stats().splits > splits) break;
      ASSERT_EQ(Put(filler, "filler").code, Code::kOk);
    }
    ASSERT_EQ(table_->stats().splits, splits + 1);
  }
  DirectoryEntry EntryOf(absl::string_view key) {
    TestReader fresh(memory_->span());
    return fresh.directory().Find(table_->HashOf(key));
  }
  char* At(uint64_t offset) { return memory_->span().data() + offset; }
  // The main bucket of `key`.
  char* BucketOfKey(absl::string_view key) {
    return At(EntryOf(key).offset() + BucketOf(table_->HashOf(key)) * kBucketBytes);
  }

  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<TestReader> reader_;
  TestClock clock_;
  int64_t now_ = 1'000 * kMillisecond;
  int fetches_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_LOOKUP_TESTING_H_
