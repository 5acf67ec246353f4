// The values that readers see, and a later server would find, between any two stores of updates in place and of
// expiring items.
#include <string>

#include "gtest/gtest.h"
#include "kv/table/store_order_testing.h"

namespace farlook::kv {
namespace {

// ---- Updates in place ----

class RewriteTest : public StoreOrderTest {
 protected:
  void SetUp() override {
    StoreOrderTest::SetUp();
    if (IsSkipped()) return;
    Make(16 * kMiB, /*rewrites=*/true);
  }
};

TEST_F(RewriteTest, AnUpdateInPlaceIsOneSwitch) {
  const Slot place = Put("key", "0").slot;
  ASSERT_EQ(Put("key", "12345678").slot, place);
  std::string before = "12345678";
  for (const char* after : {"three", "four of sixteen", "", "of twenty-four bytes, ok", "5"}) {
    // Unreadable from DEAD to alive: version, checksum, lengths, expiry; key and value in whole granules.
    const uint64_t words = 4 + (8 + std::string(after).size() + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes / 8;
    ExpectOneSwitch("key", before, after, static_cast<int>(words), {place, RedoPlace(place)},
                    [&] { EXPECT_EQ(Put("key", after).slot, place); });
    before = after;
  }
  EXPECT_EQ(table_->stats().rewrites, 6u);
  EXPECT_EQ(table_->stats().value_bytes, 1u);
}

// A reader that remembers another key's piece, or the place of that key's redo copy, only sees its own key's values.
TEST_F(RewriteTest, UpdatesOfOneKeyAreNoConcernOfAnothers) {
  const Slot place = Put("key", "mine").slot, other = Put("other", "others").slot;
  Put("other", "others2");
  ExpectOneSwitch("key", "mine", "mine2", 8, {place, other, RedoPlace(place)}, [&] { Put("key", "mine2"); });
  ExpectOneSwitch("key", "mine2", "mine2", 0, {place, other, RedoPlace(place)}, [&] { Put("other", "others3"); });
}

// Items of these sizes are assembled in the redo piece; those of other sizes in private memory.
constexpr size_t kShort = 0, kOfMiddleLength = 100, kLong = 300;

TEST_F(RewriteTest, AServerThatEndsBetweenTwoStoresLosesNeitherTheOldValueNorAnotherKeys) {
  for (const size_t bytes : {kShort, kOfMiddleLength, kLong}) {
    const std::string more(bytes, 'm');
    std::string before = "old" + more, others = "others" + more;
    for (const char* key : {"key", "other"}) Put(key, std::string(24, 'f') + more);  // all values that follow fit
    const Slot place = Put("key", before).slot, other = Put("other", others).slot;
    const std::string values[] = {"new" + more, std::string(20, 'n') + more, more, "last" + more};
    for (const std::string& value : values) {
      uint64_t store = 0;
      bool switched = false;
      {
        StoreTracer tracer(memory_->span(), [&] {
          ++store;
          const std::string now = Recovered("key", place);
          switched = switched || now == value;
          EXPECT_EQ(now, switched ? value : before) << "after store " << store;
          EXPECT_EQ(Recovered("other", other), others) << "after store " << store;
        });
        ASSERT_EQ(Put("key", value).slot, place);
        EXPECT_EQ(Recovered("key", place), value);
      }
      before = value;
      const std::string next = others + "+";
      {
        StoreTracer tracer(memory_->span(), [&] {
          EXPECT_EQ(Recovered("key", place), before);
          const std::string now = Recovered("other", other);
          EXPECT_TRUE(now == others || now == next) << now;
        });
        ASSERT_EQ(Put("other", next).slot, other);
      }
      others = next;
    }
  }
}

// The redo piece is never alive, and is complete while it is named; it is named before its item changes.
TEST_F(RewriteTest, TheRedoPieceIsWholeWhileItIsNamed) {
  const std::string keys[] = {"key", "a key of middle length", std::string(40, 'k')};
  const char* region = memory_->span().data();
  const char* redo = region + header().RedoOf(0);
  for (const size_t bytes : {kShort, kOfMiddleLength, kLong}) {
    Slot places[3];
    for (size_t i = 0; i < 3; ++i) places[i] = Put(keys[i], std::string(bytes + 22, '0')).slot;
    for (size_t i = 0; i < 9; ++i) {
      const std::string& key = keys[i * 2 % 3];
      const std::string value(bytes + i * 5 % 23, 'v');
      const Slot place = places[i * 2 % 3];
      const std::string before(region + place.offset(), place.bytes());
      int named = 0;
      {
        StoreTracer tracer(memory_->span(), [&] {
          const uint64_t version = LoadWord(redo + kVersionOffset);
          EXPECT_TRUE(version == 0 || (version & kDeadBit) != 0);
          const bool changed = before != absl::string_view(region + place.offset(), place.bytes());
          named += RedoTarget() == place.word();
          if (RedoTarget() == 0) {
            EXPECT_FALSE(changed) << "it is not named yet";
          } else if (named > 0) {
            EXPECT_EQ(RedoTarget(), place.word());
            EXPECT_EQ(WholeValue(redo, kRedoBytes, key), value);
          } else {
            ADD_FAILURE() << "what is overwritten is still named";
          }
        });
        ASSERT_EQ(Put(key, value).slot, place);
      }
      EXPECT_GT(named, 4);
    }
  }
}

TEST_F(RewriteTest, OnlyWhatFitsAndDoesNotWasteStays) {
  const Slot place = Put("key", std::string(400, 'v')).slot;
  EXPECT_EQ(Put("key", std::string(200, 'v')).slot, place);
  EXPECT_FALSE(Put("key", std::string(100, 'v')).slot == place) << "less than half of its piece";
  const Slot small = Put("key", "v").slot;
  EXPECT_FALSE(Put("key", std::string(100, 'v')).slot == small) << "it does not fit";
  const Slot largest = Put("key", std::string(kRedoBytes - kItemHeaderBytes - 8, 'v')).slot;
  EXPECT_EQ(largest.bytes(), kRedoBytes);
  EXPECT_EQ(Put("key", std::string(kRedoBytes - kItemHeaderBytes - 8, 'w')).slot, largest);
  const Slot larger = Put("key", std::string(kRedoBytes, 'v')).slot;
  EXPECT_FALSE(Put("key", std::string(kRedoBytes, 'w')).slot == larger);
}

// ---- Expiry ----

// Runs a write repeatedly, and lets the item expire after each of its stores and looks at the clock in turn. If a
// reader at that moment concludes that the key is absent, the write must not succeed.
class ExpiryOrderTest : public RewriteTest {
 protected:
  static constexpr uint64_t kExpiryMs = 2'000'000;

  template <typename F>
  void ExpectNoSuccessAfterAbsence(uint64_t old_bytes, const std::string& after, F write) {
    int absences = 0, successes = 0;
    for (int come = 1;; ++come) {
      Make(16 * kMiB, /*rewrites=*/true);
      clock_.now_us = kExpiryMs * 1000 - 1;
      PutParams params;
      params.expiry_ms = kExpiryMs;
      const std::string old(old_bytes, 'o');
      const Slot place = table_->Put(table_->HashOf("key"), "key", old, params, now_).slot;
      int step = 0;
      std::string seen = "(nothing)";
      const auto look = [&] {
        if (++step != come) return;
        clock_.now_us = kExpiryMs * 1000;
        for (const Slot cached : {place, Slot()}) {
          TestReader reader(memory_->span());
          reader.clock = &clock_;
          const std::string value = Read(&reader, "key", cached);
          if (value != kAsk) seen = value;
        }
      };
      Code code;
      {
        clock_.after_look = look;
        StoreTracer tracer(memory_->span(), look);
        code = write();
        clock_.after_look = nullptr;
      }
      if (step < come) break;
      TestReader reader(memory_->span());
      reader.clock = &clock_;
      if (code == Code::kOk) {
        ++successes;
        EXPECT_NE(seen, kNone) << "step " << come << ": absent for one, then there for the writer";
        EXPECT_EQ(Read(&reader, "key", place), after) << come;
        EXPECT_EQ(Read(&reader, "key"), after) << come;
      } else {
        ASSERT_EQ(code, Code::kNotFound);
        EXPECT_EQ(Read(&reader, "key", place), kNone) << come;
        EXPECT_EQ(Read(&reader, "key"), kNone) << come;
        EXPECT_EQ(table_->stats().keys, 0u);
        EXPECT_EQ(table_->stats().expired_items, 1u);
      }
      absences += seen == kNone;
    }
    EXPECT_GT(absences, 0);
    EXPECT_GT(successes, 0);
  }
  Code PutIfPresent(const std::string& value) {
    return table_->Put(table_->HashOf("key"), "key", value, PutParams{Condition::kPresent}, now_).code;
  }
};

TEST_F(ExpiryOrderTest, APutInPlaceOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, "newer", [&] { return PutIfPresent("newer"); });
}

TEST_F(ExpiryOrderTest, APutElsewhereOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, std::string(300, 'n'), [&] { return PutIfPresent(std::string(300, 'n')); });
}

TEST_F(ExpiryOrderTest, APublishOnConditionOfPresence) {
  ExpectNoSuccessAfterAbsence(5, "newer", [&] {
    Reservation reservation;
    EXPECT_EQ(table_->Reserve(table_->HashOf("key"), "key", 5, &reservation, now_), Code::kOk);
    StoreBytes(reservation.value.data(), "newer", 5);
    return table_->Publish(reservation, PutParams{Condition::kPresent}, now_).code;
  });
}

TEST_F(ExpiryOrderTest, ATouch) {
  ExpectNoSuccessAfterAbsence(5, "ooooo",
                              [&] { return table_->Touch(table_->HashOf("key"), "key", 3'000'000, now_).code; });
}

TEST_F(ExpiryOrderTest, APersist) {
  ExpectNoSuccessAfterAbsence(5, "ooooo", [&] { return table_->Touch(table_->HashOf("key"), "key", 0, now_).code; });
}

}  // namespace
}  // namespace farlook::kv
