// For tests of what readers see between any two stores of the writer. Each test traces one operation store by store and
// reads after each store. It reads as a new client, as one with the former directory, and as ones that remember the
// location of the old item or, if memory is reused, of the new one. Other tests determine what a later server would
// find in the region.
#ifndef FARLOOK_KV_TABLE_STORE_ORDER_TESTING_H_
#define FARLOOK_KV_TABLE_STORE_ORDER_TESTING_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/sanitized.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/table/store_tracer.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr char kAsk[] = "(would ask the server)";
inline constexpr char kNone[] = "(none)";

// Keys of one main bucket of the segment that serves the positions with these three top bits.
inline std::vector<std::string> KeysInBucket(const Table& table, uint64_t step, uint32_t bucket, size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = absl::StrCat("k", i);
    const uint64_t hash = table.HashOf(key);
    if (BucketOf(hash) == bucket && PositionOf(hash) >> 61 == step) keys.push_back(std::move(key));
  }
  return keys;
}

class StoreOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!StoreTracer::kWorksHere) GTEST_SKIP() << "no single steps here";
    Make(16 * kMiB);
  }
  void Make(uint64_t bytes, bool rewrites = false, bool evict = false) {
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.rewrites = rewrites;
    options.evict = evict;
    options.clock = &clock_;
    table_ = *Table::Create(memory_->span(), options);
    now_ = 1'000 * kMillisecond;
  }

  WriteResult Put(absl::string_view key, absl::string_view value) {
    now_ += 1000;
    return table_->Put(table_->HashOf(key), key, value, Condition::kAlways, 0, now_);
  }
  Code Delete(absl::string_view key) {
    return table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code;
  }

  // A write whose time was read after everything so far, then time passes.
  void PassQuarantine(int64_t ns = kQuarantineNs) {
    now_ += kMillisecond;
    Put("tick", "");
    table_->Delete(table_->HashOf("tick"), "tick", Condition::kAlways, 0, now_);
    now_ += ns;
  }

  static std::string Read(TestReader* reader, absl::string_view key, Slot cached = Slot()) {
    const uint64_t gave_up = reader->gave_up();
    const std::optional<std::string> value = reader->Get(key, cached);
    if (reader->gave_up() != gave_up) return kAsk;
    return value.value_or(kNone);
  }

  // Runs `write` and checks what readers of `key` see after each of its stores: `before`, then nothing readable for at
  // most `gap` stores, then `after`. Once one of them saw `after`, no other value ever follows. `places`: locations
  // that readers may remember.
  template <typename F>
  void ExpectOneSwitch(absl::string_view key, const std::string& before, const std::string& after, int gap,
                       const std::vector<Slot>& places, F write) {
    TestReader old_reader(memory_->span());
    ASSERT_EQ(Read(&old_reader, key), before);
    std::vector<std::string> seen;
    uint64_t stores = 0;
    {
      StoreTracer tracer(memory_->span(), [&] {
        // With a sanitizer, few of the many stores that copy a long value.
        if (kSanitized && ++stores > 64 && stores < after.size() / 8 && stores % 64 != 0) return;
        for (const Slot place : places) seen.push_back(Read(&old_reader, key, place));
        seen.push_back(Read(&old_reader, key));
        TestReader new_reader(memory_->span());
        seen.push_back(Read(&new_reader, key));
        for (const Slot place : places) seen.push_back(Read(&new_reader, key, place));
      });
      write();
      ASSERT_GT(tracer.stores(), 1u);
    }
    const size_t readers = 2 + 2 * places.size();
    bool switched = false;
    int asked = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const size_t store = i / readers;
      switched = switched || (seen[i] == after && before != after);
      if (seen[i] == kAsk) {
        asked += i % readers == 0 || seen[i - 1] != kAsk;
        continue;
      }
      ASSERT_EQ(seen[i], switched ? after : before) << "reader " << i % readers << " after store " << store + 1;
    }
    EXPECT_LE(asked, gap);
    EXPECT_EQ(seen.back(), after);
  }

  // The redo piece, as a place that a reader might remember.
  Slot RedoPlace(Slot like) const { return Slot(like.fingerprint(), like.size_class(), header().RedoOf(0)); }

  // The key's value and expiry that a later server would recover if this one ended now, if the slot leads to `place`.
  // See "Writing" in docs/protocol.md.
  std::string Recovered(absl::string_view key, Slot place) const {
    const char* region = memory_->span().data();
    const std::optional<std::string> value = WholeValue(region + place.offset(), place.bytes(), key);
    if (value) return *value;
    const char* redo = region + header().RedoOf(0);
    const uint64_t version = LoadWord(region + place.offset() + kVersionOffset);
    if (RedoTarget() != place.word()) return kNone;
    if (LoadWord(redo + kVersionOffset) != version || (version & kDeadBit) == 0) return kNone;
    return WholeValue(redo, kRedoBytes, key).value_or("(a redo piece that is torn)");
  }
  // The same for the place that the index in the region leads to. Also checks that the marks in the region cover the
  // versions, segments and units in use.
  std::string AfterACrash(absl::string_view key) const {
    const char* region = memory_->span().data();
    const RegionHeader header = this->header();
    const uint64_t hash = table_->HashOf(key);
    const IndexState state(LoadWord(region + kIndexStateOffset));
    const uint64_t at = header.DirectoryArray(state.level()) + 8 * (PositionOf(hash) >> (64 - state.level()));
    const DirectoryEntry entry(LoadWord(region + at));
    if (entry.segment_id() > LoadWord(region + header.MarksOf(0) + kSegmentIdMark)) return "(an unmarked segment id)";
    if (UseOf(entry.offset()) != MapWord::Use::kIndex) return "(a segment in a unit that is not the index's)";
    const char* segment = region + entry.offset();
    const auto in = [&](uint32_t number) {
      for (size_t i = 1; i < kWordsPerBucket; ++i) {
        const Slot slot(LoadWord(segment + uint64_t{number} * kBucketBytes + 8 * i));
        if (slot.empty() || slot.fingerprint() != FingerprintOf(hash)) continue;
        if (absl::string_view(region + slot.offset() + kItemHeaderBytes, key.size()) == key) return slot;
      }
      return Slot();
    };
    const uint32_t main = BucketOf(hash);
    Slot place = in(main);
    const uint32_t link = BucketInfo(LoadWord(segment + uint64_t{main} * kBucketBytes)).link();
    if (place.empty() && link != 0) place = in(LinkedBucket(link));
    if (place.empty()) return kNone;
    const uint64_t version = LoadWord(region + place.offset() + kVersionOffset) & ~kDeadBit;
    if (version > LoadWord(region + header.MarksOf(0) + kVersionMark)) return "(an unmarked version)";
    const MapWord::Use use = UseOf(place.offset());
    if (use != MapWord::Use::kItems && use != MapWord::Use::kRest) return "(an item in a unit that is not the items')";
    return Recovered(key, place);
  }
  // Runs `write` and simulates the server's end before each of its stores, and after the last. A later server must find
  // the key's value from before or, from some store on, the one from after.
  struct Change {
    std::string key, before, after;
  };
  template <typename F>
  void ExpectEachCrashKeeps(std::vector<Change> changes, F write, uint64_t every = 1) {
    uint64_t store = 0, wrong = 0;
    std::string first;
    for (const Change& change : changes) ASSERT_EQ(AfterACrash(change.key), change.before);
    {
      StoreTracer tracer(memory_->span(), [&] {
        if (++store % every != 0) return;
        for (Change& change : changes) {
          const std::string now = AfterACrash(change.key);
          if (now == change.after) change.before = change.after;
          if (now == change.before) continue;
          if (wrong++ == 0) first = absl::StrCat(change.key, " is ", now, " after store ", store);
        }
      });
      write();
    }
    EXPECT_GT(store, 0u);
    EXPECT_EQ(wrong, 0u) << first;
    for (const Change& change : changes) EXPECT_EQ(AfterACrash(change.key), change.after);
  }
  uint64_t RedoTarget() const { return LoadWord(memory_->span().data() + header().MarksOf(0) + kRedoTarget); }
  RegionHeader header() const { return RegionHeader::For(memory_->span().size(), 1); }

  MapWord::Use UseOf(uint64_t offset) const {
    return MapWord(LoadWord(memory_->span().data() + header().MapWordOf(offset))).use();
  }
  // For an item whose version may be DEAD, and whose tag may be inverted.
  std::optional<std::string> WholeValue(const char* at, uint64_t bytes, absl::string_view key) const {
    std::string copy(at, bytes);
    const uint64_t version = LoadAs<uint64_t>(copy.data() + kVersionOffset) & ~kDeadBit;
    const uint64_t expiry = LoadAs<uint64_t>(copy.data() + kExpiryOffset);
    StoreAs(copy.data() + kVersionOffset, version);
    if (ExpiryFits(version, InvertTag(expiry))) StoreAs(copy.data() + kExpiryOffset, InvertTag(expiry));
    ItemView item;
    if (CheckItem(table_->hasher(), copy, key, &item) != ItemCheck::kValid) return std::nullopt;
    if (item.expiry_ms == 0) return std::string(item.value);
    return absl::StrCat(item.value, " until ", item.expiry_ms);
  }

  TestClock clock_;
  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
  int64_t now_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_STORE_ORDER_TESTING_H_
