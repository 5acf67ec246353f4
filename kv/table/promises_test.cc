// A table's figures about its room are true, and overwrites of existing items succeed. Both hold for values of many
// lengths, at each degree of filling, with memory reserved by others, and with locks held by others.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kv/heap/partition_locks.h"
#include "kv/layout/limits.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kKiB = 1 << 10;

struct Lengths {
  const char* name;
  uint64_t least, most;
  uint64_t region_bytes = 64 * kMiB;
};

class PromisesTest : public testing::TestWithParam<Lengths> {
 protected:
  PromisesTest() : memory_(GetParam().region_bytes) {
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = 8;
    options.max_value_bytes = kMaxValueBytes;
    table_ = *Table::Create(memory_.span(), options);
    pattern_.assign(GetParam().region_bytes, 'v');
  }

  uint64_t Draw() { return GetParam().least + random_() % (GetParam().most - GetParam().least + 1); }
  uint64_t Hash(absl::string_view key) const { return table_->HashOf(key); }

  // One attempt, without a step of making room.
  Code TryPut(const std::string& key, uint64_t bytes) {
    PutParams params;
    params.may_step = false;
    return table_->Put(Hash(key), key, {pattern_.data(), bytes}, params, now_ += 1000).code;
  }
  Code Put(const std::string& key, uint64_t bytes) {
    Code code = Code::kMakingRoom;
    for (int i = 0; i < 100'000 && code == Code::kMakingRoom; ++i) {
      code = table_->Put(Hash(key), key, {pattern_.data(), bytes}, Condition::kAlways, 0, now_ += 1000).code;
    }
    if (code == Code::kOk) lengths_[key] = bytes;
    return code;
  }
  bool PutNew() { return Put(absl::StrCat("key", next_++), Draw()) == Code::kOk; }
  void Delete(const std::string& key) {
    lengths_.erase(key);
    ASSERT_EQ(table_->Delete(Hash(key), key, Condition::kAlways, 0, now_).code, Code::kOk);
  }
  void DeleteSome(uint64_t one_in) {
    for (const auto& [key, bytes] : std::map<std::string, uint64_t>(lengths_)) {
      if (random_() % one_in == 0) Delete(key);
    }
  }
  void Fill() {
    while (PutNew()) {
    }
  }

  // Expects that a value as long as the figures state, with the longest key, can be put.
  void ExpectFiguresAreTrue(absl::string_view when) {
    const std::string key(kMaxKeyBytes, 'k');
    if (const uint64_t now = table_->stats().largest_value_bytes; now > 0) {
      EXPECT_EQ(TryPut(key, now), Code::kOk) << when << ": " << now << " bytes fit now";
      if (lengths_.count(key) == 0) table_->Delete(Hash(key), key, Condition::kAlways, 0, now_);
    }
    const uint64_t after = table_->stats().largest_after_bytes;
    EXPECT_GE(after, table_->stats().largest_value_bytes) << when;
    if (table_->stats().used_bytes < GetParam().region_bytes / 2) {
      EXPECT_GT(after, GetParam().region_bytes / 16) << when;  // the promise must not be empty
    }
    if (after == 0) return;
    EXPECT_EQ(Put(key, after), Code::kOk) << when << ": " << after << " bytes fit after moving";
    if (lengths_.count(key) > 0) Delete(key);
  }
  void ExpectOverwritesSucceed() {
    const std::map<std::string, uint64_t> lengths = lengths_;
    for (int round = 0; round < 2; ++round) {
      for (const auto& [key, bytes] : lengths) ASSERT_EQ(Put(key, bytes), Code::kOk) << key << ", " << bytes;
    }
    for (const auto& [key, bytes] : lengths) ASSERT_EQ(Put(key, bytes - bytes / 8), Code::kOk) << key << ", " << bytes;
  }

  TestMemory memory_;
  std::unique_ptr<Table> table_;
  std::string pattern_;
  std::mt19937_64 random_{1};
  std::map<std::string, uint64_t> lengths_;
  uint64_t next_ = 0;
  int64_t now_ = 0;
};

TEST_P(PromisesTest, WhatIsSaidToFitFits) {
  ExpectFiguresAreTrue("empty");
  for (int share = 10; share < 100; share += 10) {
    while (table_->stats().used_bytes * 100 < GetParam().region_bytes * static_cast<uint64_t>(share) && PutNew()) {
    }
    ExpectFiguresAreTrue(absl::StrCat(share, " % full"));
  }
  Fill();
  ExpectFiguresAreTrue("full");
  for (const uint64_t one_in : {20u, 5u, 3u, 2u}) {
    DeleteSome(one_in);
    ExpectFiguresAreTrue(absl::StrCat("one in ", one_in, " deleted"));
    if (one_in == 5) {
      Fill();
      ExpectFiguresAreTrue("full again");
    }
  }
}

TEST_P(PromisesTest, OverwritesOfAFullTableSucceed) {
  Fill();
  ExpectOverwritesSucceed();
}

// First long items, then short ones fill the rest: nearly all units are blocks of short items.
TEST_P(PromisesTest, OverwritesSucceedAmongManyShortItems) {
  for (int i = 0; i < 5; ++i) PutNew();
  const std::map<std::string, uint64_t> first = lengths_;
  for (int i = 0; Put(absl::StrCat("short", i), 900) == Code::kOk; ++i) {
  }
  lengths_ = first;
  ExpectOverwritesSucceed();
}

TEST_P(PromisesTest, OverwritesSucceedBesideMemoryThatIsReserved) {
  std::vector<Reservation> reservations(5);
  for (size_t i = 0; i < reservations.size(); ++i) {
    const std::string key = absl::StrCat("reserved", i);
    ASSERT_EQ(table_->Reserve(Hash(key), key, Draw(), &reservations[i], now_), Code::kOk);
  }
  Fill();
  ExpectOverwritesSucceed();
  for (const Reservation& reservation : reservations) table_->Abandon(reservation);
}

// While other threads hold the locks of all other partitions, an overwrite may have to wait, but is not refused.
TEST_P(PromisesTest, OverwritesAreNotRefusedForLocksOfOthers) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Fill();
  const std::map<std::string, uint64_t> lengths = lengths_;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [key, bytes] : lengths) {
      const int own = table_->PartitionOf(Hash(key));
      for (int i = 0; i < table_->partitions(); ++i) {
        if (i != own) table_->locks()->of(i)->Lock();
      }
      Code code = Code::kMakingRoom;
      for (int i = 0; i < 300 && code == Code::kMakingRoom; ++i) {
        code = table_->Put(Hash(key), key, {pattern_.data(), bytes}, Condition::kAlways, 0, now_ += 1000).code;
      }
      for (int i = 0; i < table_->partitions(); ++i) {
        if (i != own) table_->locks()->of(i)->Unlock();
      }
      if (code == Code::kMakingRoom) code = Put(key, bytes);
      ASSERT_EQ(code, Code::kOk) << key << ", " << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, PromisesTest,
                         testing::Values(Lengths{"OneKB", 1000, 1000}, Lengths{"To4KiB", 1, 4 * kKiB},
                                         Lengths{"FortyKB", 40'000, 40'000}, Lengths{"To64KiB", 5 * kKiB, 64 * kKiB},
                                         Lengths{"To512KiB", 100 * kKiB, 511 * kKiB},
                                         Lengths{"To1MiB", 520 * kKiB, kMiB}, Lengths{"To4MiB", kKiB, 4 * kMiB},
                                         Lengths{"FortyKBOfMore", 40'000, 40'000, 256 * kMiB},
                                         Lengths{"To512KiBOfMore", 100 * kKiB, 511 * kKiB, 256 * kMiB}),
                         [](const testing::TestParamInfo<Lengths>& param) { return param.param.name; });

}  // namespace
}  // namespace farlook::kv
