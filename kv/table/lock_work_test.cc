// Bounds the work that a call of a table does under its partition's lock, whatever clients ask for. It counts executed
// basic blocks, which the compiler reports (see work_counted in BUILD), so that other processes have no influence. A
// block takes about a nanosecond if its memory is cached, and a hundred if not.
//
// FARLOOK_FULL_LENGTH=1 uses a larger region of up to 8 GiB.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/segment.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace {
uint64_t blocks = 0;
}  // namespace

extern "C" void __sanitizer_cov_trace_pc();
void __sanitizer_cov_trace_pc() { ++blocks; }

namespace farlook::kv {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSmallRegion = 16 * kMiB;
// The limits of any call, and of a sweep. The most expensive case, with hashes chosen to collide, is a segment that is
// split and whose halves must be built twice.
constexpr uint64_t kMostBlocks = 400'000, kMostSweptBlocks = 60'000;
// The server's parameters (server/executor/sweep.h, server/replication/snapshot_sender.cc, kv/wire/message.h).
constexpr size_t kSweptAtOnce = 8;
constexpr size_t kWalkedAtOnce = 64;
constexpr size_t kMostInline = 3000;

uint64_t LargeRegion(bool evict) {
  if (std::getenv("FARLOOK_FULL_LENGTH") != nullptr) return 8192 * kMiB;
  return evict ? 64 * kMiB : 256 * kMiB;
}

// A table whose calls are counted.
class CountedTable {
 public:
  CountedTable(uint64_t bytes, bool evict) : bytes_(bytes), memory_(bytes) {
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = 2;
    options.max_value_bytes = kMaxValueBytes;
    options.clock = &clock_;
    options.evict = evict;
    table_ = *Table::Create(memory_.span(), options);
    pattern_.assign(std::min(kMaxValueBytes, bytes / 16), 'v');
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t longest() const { return pattern_.size(); }
  Table& table() { return *table_; }
  TestClock& clock() { return clock_; }
  const std::map<std::string, uint64_t>& most() const { return most_; }
  uint64_t steps() const { return steps_; }

  template <typename F>
  auto Count(const char* what, F call) {
    now_ns_ += 1000;
    blocks = 0;
    const auto result = call();
    uint64_t& most = most_[what];
    most = std::max(most, blocks);
    return result;
  }

  // Puts as a server does: a long value is written before it is published, and its checksum is known by then.
  Code Put(absl::string_view key, uint64_t value_bytes, PutParams params = {}) {
    const uint64_t hash = table_->HashOf(key);
    if (value_bytes <= kMostInline) {
      return InSteps([&](bool may_step) {
        params.may_step = may_step;
        return Count("Put",
                     [&] {
                       return table_->Put(hash, key, {pattern_.data(), value_bytes}, params, now_ns_);
                     })
            .code;
      });
    }
    Reservation reservation;
    const Code reserved = InSteps([&](bool may_step) {
      return Count("Reserve", [&] { return table_->Reserve(hash, key, value_bytes, &reservation, now_ns_, may_step); });
    });
    if (reserved != Code::kOk) return reserved;
    reservation.checksum = 0;
    return InSteps([&](bool may_step) {
      params.may_step = may_step;
      return Count("Publish", [&] { return table_->Publish(reservation, params, now_ns_); }).code;
    });
  }
  Code Delete(absl::string_view key) {
    const uint64_t hash = table_->HashOf(key);
    return Count("Delete", [&] { return table_->Delete(hash, key, Condition::kAlways, 0, now_ns_); }).code;
  }
  void Look(absl::string_view key) {
    const uint64_t hash = table_->HashOf(key);
    ItemView item;
    Count("Get", [&] { return table_->Get(hash, key, &item); });
    Count("Touch", [&] { return table_->Touch(hash, key, 0, now_ns_); });
  }
  void Tidy() {
    now_ns_ += 200'000'000;
    for (int i = 0; i < table_->partitions(); ++i) Count("Tidy", [&] { return table_->Tidy(i, now_ns_); });
  }
  void Sweep() {
    for (int i = 0; i < table_->partitions(); ++i) {
      std::vector<ExpiredItem> counters;
      while (Count("Sweep", [&] { return table_->Sweep(i, kSweptAtOnce, now_ns_, &counters); })) {
      }
      for (const ExpiredItem& counter : counters) {
        Count("DeleteCounter", [&] { return table_->DeleteCounter(counter.hash, counter.key, now_ns_); });
      }
    }
  }
  // Fills `other` as a backup: each item is reserved there with its version, and published. The work of this table's
  // calls counts as the other's.
  void CopyTo(CountedTable* other) {
    CopyItemsTo(other);
    for (const auto& [call, count] : most_) {
      uint64_t& most = other->most_[call];
      most = std::max(most, count);
    }
  }

 private:
  void CopyItemsTo(CountedTable* other) {
    for (int i = 0; i < table_->partitions(); ++i) {
      WalkPlace place;
      struct Item {
        uint64_t hash, version, bytes;
        std::string key;
      };
      std::vector<Item> items;
      const auto see = [&](uint64_t hash, const ItemView& item) {
        items.push_back({hash, item.version, item.value.size(), std::string(item.key)});
      };
      for (bool more = true; more;) {
        more = Count("Walk", [&] { return table_->Walk(i, &place, kWalkedAtOnce, see); });
        for (const Item& item : items) {
          Reservation reservation;
          const Code code = other->Count("ReserveCopy", [&] {
            return other->table_->ReserveCopy(item.hash, item.key, item.bytes, item.version, &reservation,
                                              other->now_ns_);
          });
          if (code != Code::kOk) continue;
          reservation.checksum = 0;
          other->InSteps([&](bool) {
            return other->Count("Publish", [&] { return other->table_->Publish(reservation, {}, other->now_ns_); })
                .code;
          });
        }
        items.clear();
      }
    }
  }

  template <typename F>
  Code InSteps(F call) {
    Code code = call(false);
    for (int i = 0; code == Code::kMakingRoom && i < 1'000'000; ++i, ++steps_) code = call(true);
    return code;
  }

  const uint64_t bytes_;
  TestMemory memory_;
  TestClock clock_;
  std::unique_ptr<Table> table_;
  std::string pattern_;
  int64_t now_ns_ = 1'000'000'000;
  uint64_t steps_ = 0;  // calls that returned kMakingRoom
  std::map<std::string, uint64_t> most_;
};

struct Scenario {
  const char* name;
  bool evict;
  // May depend on the region's size, to produce the worst case of each.
  std::function<void(CountedTable*)> run;
};

std::ostream& operator<<(std::ostream& out, const Scenario& scenario) { return out << scenario.name; }

std::string Name(uint64_t i) { return absl::StrCat("key", i); }

// Puts until the first refusal, or up to the region's size. Returns the number of puts.
uint64_t Fill(CountedTable* table, uint64_t first, const std::function<uint64_t()>& length, uint64_t ttl_ms = 0) {
  uint64_t put = 0;
  for (uint64_t bytes = 0; bytes < table->bytes();) {
    const uint64_t value_bytes = length();
    PutParams params;
    if (ttl_ms > 0) params.expiry_ms = table->clock().now_us / 1000 + ttl_ms;
    if (table->Put(Name(first + put), value_bytes, params) != Code::kOk) break;
    bytes += value_bytes + 64;
    ++put;
  }
  return put;
}

// Small items everywhere, three of four deleted; then long values, for which thousands must be moved.
void LongAmongShort(CountedTable* table) {
  const uint64_t keys = Fill(table, 0, [] { return uint64_t{8}; });
  std::mt19937_64 random{1};
  for (uint64_t i = 0; i < keys; ++i) {
    if (random() % 4 != 0) table->Delete(Name(i));
  }
  for (uint64_t i = 0; table->Put(absl::StrCat("long", i), table->longest() - i * 1000) == Code::kOk && i < 40; ++i) {
    table->Look(absl::StrCat("long", i));
    table->Delete(absl::StrCat("long", i / 2));
  }
  for (uint64_t i = 0; i < keys; ++i) table->Delete(Name(i));
  for (int i = 0; i < 100; ++i) table->Tidy();
}

// The same with items that are long to copy.
void LongAmongMedium(CountedTable* table) {
  std::mt19937_64 random{5};
  const uint64_t keys = Fill(table, 0, [&] { return 20'000 + random() % 40'000; });
  for (uint64_t i = 0; i < keys; ++i) {
    if (random() % 2 != 0) table->Delete(Name(i));
  }
  for (uint64_t i = 0; i < 20; ++i) table->Put(absl::StrCat("long", i), table->longest() - i * 1000);
}

// Lengths of all kinds in a full table; deleted items are replaced by others, and items are overwritten.
void Mixed(CountedTable* table) {
  std::mt19937_64 random{2};
  const auto draw = [&] { return (uint64_t{1} << random() % 17) + random() % 100; };
  uint64_t keys = Fill(table, 0, draw);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < keys; i += 1 + random() % 3) table->Delete(Name(i));
    keys = std::max(keys, Fill(table, keys * static_cast<uint64_t>(round % 2), draw));
    for (uint64_t i = 0; i < keys; i += 7) table->Put(Name(i), draw());
  }
}

// Keys of chosen hashes among others make the directory grow to its last level, from few segments.
void ChosenHashes(CountedTable* table) {
  const uint64_t keys = table->bytes() / 400;
  for (uint64_t i = 0; i < keys; ++i) table->Put(Name(i), 8);
  const int bits = std::min(14, MaxLevelFor(table->bytes()));
  std::string key;
  for (uint64_t found = 0, i = 0; found < 5'000; ++i) {
    key.assign("c");
    key.append(reinterpret_cast<const char*>(&i), sizeof i);
    if (PositionOf(table->table().HashOf(key)) >> (64 - bits) != 1) continue;
    ++found;
    table->Put(key, 0);
  }
  if (table->bytes() > kSmallRegion) {
    EXPECT_GE(table->table().stats().level, bits);
    EXPECT_GT(table->steps(), 4u) << "the directory grows in steps";
  }
}

// Items that all expire at once, with counters among them.
void Expiring(CountedTable* table) {
  for (int round = 0; round < 3; ++round) {
    const uint64_t expiry_ms = table->clock().now_us / 1000 + 1000;
    for (uint64_t i = 0; i < 2000; ++i) {
      const std::string key = absl::StrCat("counter", i);
      const uint64_t hash = table->table().HashOf(key);
      table->Count("InsertCounter", [&] { return table->table().InsertCounter(hash, key, i, expiry_ms, 0); });
    }
    Fill(
        table, 0, [] { return uint64_t{200}; }, 1000 + 4000 * static_cast<uint64_t>(round));
    table->Sweep();
    table->clock().now_us += 20'000'000;
    table->Sweep();
    for (int i = 0; i < 20; ++i) table->Tidy();
  }
}

// A cache with more puts than it has room for: short, long, and short again.
void Cache(CountedTable* table) {
  std::mt19937_64 random{3};
  Fill(table, 0, [] { return uint64_t{20}; });
  for (uint64_t i = 0; i < 30; ++i) table->Put(absl::StrCat("long", i), table->longest() / (1 + i % 4));
  Fill(table, 0, [&] { return (uint64_t{1} << random() % 17) + random() % 100; });
  Fill(table, 1 << 30, [] { return uint64_t{500}; });
}

// A cache in which each item was found repeatedly, so that none is evicted at the first look.
void CacheInUse(CountedTable* table) {
  const uint64_t keys = Fill(table, 0, [] { return uint64_t{100}; });
  for (uint64_t i = 0; i < 3 * keys; ++i) {
    const std::string key = Name(i % keys);
    ItemView item;
    const WriteResult found = table->table().Get(table->table().HashOf(key), key, &item);
    if (found.code == Code::kOk) table->table().Touched(found.slot);
  }
  for (uint64_t i = 0; i < 20'000; ++i) table->Put(absl::StrCat("new", i), 100);
}

// A table is copied to another, as a backup is filled.
void Copied(CountedTable* table) {
  std::mt19937_64 random{4};
  CountedTable other(table->bytes(), /*evict=*/false);
  Fill(&other, 0, [&] { return (uint64_t{1} << random() % 14) + random() % 100; });
  other.CopyTo(table);
}

class LockWorkTest : public testing::TestWithParam<Scenario> {};

TEST_P(LockWorkTest, NoCallDoesMuchUnderItsLock) {
  std::map<std::string, uint64_t> most[2];
  for (const bool large : {false, true}) {
    CountedTable table(large ? LargeRegion(GetParam().evict) : kSmallRegion, GetParam().evict);
    GetParam().run(&table);
    most[large] = table.most();
  }
  ASSERT_FALSE(most[1].empty());
  for (const auto& [call, count] : most[1]) {
    std::cout << "  " << call << ": at most " << most[0][call] << " blocks in a small region, " << count
              << " in a large one\n";
    EXPECT_GT(count, 0u) << "nothing is counted";
    EXPECT_LE(count, call == "Sweep" ? kMostSweptBlocks : kMostBlocks) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, LockWorkTest,
                         testing::Values(Scenario{"LongAmongShort", false, LongAmongShort},
                                         Scenario{"LongAmongMedium", false, LongAmongMedium},
                                         Scenario{"Mixed", false, Mixed}, Scenario{"ChosenHashes", false, ChosenHashes},
                                         Scenario{"Expiring", false, Expiring}, Scenario{"Cache", true, Cache},
                                         Scenario{"CacheInUse", true, CacheInUse}, Scenario{"Copied", false, Copied}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace farlook::kv
