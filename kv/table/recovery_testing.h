// For tests of recovery: copies a table's region in the middle of a write, as a process that is killed there leaves it,
// and continues the copy.
#ifndef FARLOOK_KV_TABLE_RECOVERY_TESTING_H_
#define FARLOOK_KV_TABLE_RECOVERY_TESTING_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/region.h"
#include "kv/layout/test_region.h"
#include "kv/layout/words.h"
#include "kv/table/recovery.h"
#include "kv/table/store_tracer.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"

namespace farlook::kv {

class RecoveryTest : public testing::Test {
 protected:
  struct Held {
    std::string value;
    uint64_t expiry_ms = 0;
    friend bool operator==(const Held&, const Held&) = default;
  };
  using Model = std::map<std::string, Held>;
  using Copies = std::vector<std::unique_ptr<TestMemory>>;

  // A table that continued from a copy of the region.
  struct Life {
    std::unique_ptr<TestMemory> memory;
    std::unique_ptr<Table> table;
    RecoveryReport report;
    std::unique_ptr<TestReader> reader;  // read the directory before the table continued, a second ago
  };

  void Make(int partitions = 1, bool rewrites = true, bool evict = false, uint64_t bytes = kMinRegionBytes) {
    memory_ = std::make_unique<TestMemory>(bytes);
    options_.incarnation = 7;
    options_.hash_seed = 42;
    options_.partitions = partitions;
    options_.rewrites = rewrites;
    options_.evict = evict;
    options_.clock = &clock_;
    table_ = *Table::Create(memory_->span(), options_);
  }

  // Copies the region; pages of zeros stay as they are.
  std::unique_ptr<TestMemory> Copy() const { return CopyOf(memory_->span()); }
  static std::unique_ptr<TestMemory> CopyOf(absl::Span<char> from) {
    constexpr size_t kPage = 4096;
    static const char kZeros[kPage] = {};
    auto copy = std::make_unique<TestMemory>(from.size());
    for (size_t at = 0; at < from.size(); at += kPage) {
      if (std::memcmp(&from[at], kZeros, kPage) != 0) std::memcpy(&copy->span()[at], &from[at], kPage);
    }
    return copy;
  }
  Life Continue(std::unique_ptr<TestMemory> memory, const RecoveryOptions& recovery = {}) const {
    Life life;
    life.memory = std::move(memory);
    life.reader = std::make_unique<TestReader>(life.memory->span());
    life.reader->clock = const_cast<TestClock*>(&clock_);
    life.reader->now_ns = [] { return 1'000'000'000; };
    auto table = Recovery::Run(life.memory->span(), options_, recovery, now_, &life.report);
    EXPECT_TRUE(table.ok()) << table.status();
    if (table.ok()) life.table = *std::move(table);
    return life;
  }

  // Continues the region, and copies it after each `every`-th store of that.
  Copies InterruptRecovery(absl::Span<char> region, uint64_t every = 1) const {
    Copies copies;
    RecoveryReport report;
    uint64_t store = 0;
    const StoreTracer tracer(region, [&] {
      if (++store % every == 0) copies.push_back(CopyOf(region));
    });
    const auto table = Recovery::Run(region, options_, {}, now_, &report);
    EXPECT_TRUE(table.ok()) << table.status();
    return copies;
  }

  WriteResult PutIn(Table* table, absl::string_view key, absl::string_view value, uint64_t expiry_ms = 0) {
    PutParams params;
    params.expiry_ms = expiry_ms;
    for (int calls = 0;; ++calls) {
      now_ += 1000;
      const WriteResult result = table->Put(table->HashOf(key), key, value, params, now_);
      if (result.code == Code::kMakingRoom && calls < 10'000) continue;
      if (result.code == Code::kOk && table == table_.get()) newest_ = std::max(newest_, result.version);
      return result;
    }
  }
  Code Put(const std::string& key, const std::string& value, uint64_t expiry_ms = 0) {
    const Code code = PutIn(table_.get(), key, value, expiry_ms).code;
    if (code == Code::kOk) model_[key] = {value, expiry_ms};
    return code;
  }
  Code Delete(const std::string& key) {
    now_ += 1000;
    const Code code = table_->Delete(table_->HashOf(key), key, Condition::kAlways, 0, now_).code;
    if (code == Code::kOk) model_.erase(key);
    return code;
  }
  Code Touch(const std::string& key, uint64_t expiry_ms) {
    const Code code = table_->Touch(table_->HashOf(key), key, expiry_ms, now_).code;
    if (code == Code::kOk) model_[key].expiry_ms = expiry_ms;
    return code;
  }

  static std::optional<Held> HeldIn(const Table& table, const std::string& key) {
    ItemView item;
    if (table.Get(table.HashOf(key), key, &item).code != Code::kOk) return std::nullopt;
    return Held{std::string(item.value), item.expiry_ms};
  }

  // Checks that the table has what the model has; `key`, whose write was interrupted, may have `after` instead. Then
  // goes on with it: rewrites all keys under new versions, and deletes them; all memory must be free.
  void ExpectWhole(Life life, const Model& before, const std::string& key, std::optional<Held> after) {
    ASSERT_NE(life.table, nullptr);
    Table* const table = life.table.get();
    Model now = before;
    if (const std::optional<Held> held = HeldIn(*table, key); held == after) {
      now.erase(key);
      if (after.has_value()) now[key] = *after;
    }
    TestReader reader(life.memory->span());
    reader.clock = &clock_;
    for (const auto& [name, held] : now) {
      ASSERT_EQ(HeldIn(*table, name), held) << name;
      ASSERT_EQ(reader.Get(name), held.value) << name;
      ASSERT_EQ(life.reader->Get(name), held.value) << name;
    }
    ASSERT_EQ(table->stats().keys, now.size());
    ASSERT_EQ(life.report.dropped, 0u);
    for (const auto& [name, held] : now) {
      const WriteResult result = PutIn(table, name, held.value);
      ASSERT_EQ(result.code, Code::kOk) << name;
      ASSERT_GT(result.version, newest_) << name;
    }
    for (const auto& [name, held] : now) {
      ASSERT_EQ(reader.Get(name), held.value) << name;
      ASSERT_EQ(life.reader->Get(name), held.value) << name;
      ASSERT_EQ(table->Delete(table->HashOf(name), name, Condition::kAlways, 0, now_).code, Code::kOk);
      ASSERT_EQ(reader.Get(name), std::nullopt) << name;
    }
    const TableStats stats = table->stats();
    ASSERT_EQ(stats.keys + stats.key_bytes + stats.value_bytes + stats.used_bytes, 0u);
    ASSERT_GE(stats.free_bytes + stats.index_bytes + stats.overhead_bytes, stats.region_bytes);
  }

  // Runs `write`, whose key is `key`, and continues a copy made after each `every`-th of its stores.
  void ExpectEachCrashKeeps(const std::string& key, const std::function<void()>& write, uint64_t every = 1) {
    const Model before = model_;
    Copies copies;
    {
      StoreTracer tracer(memory_->span(), [&] {
        if (++store_ % every == 0) copies.push_back(Copy());
      });
      write();
    }
    ExpectAllKeep(before, key, std::move(copies));
  }
  // The same for a put of a long value. Not traced are the stores of the value itself and of copies of others, since
  // each costs some 0.1 ms.
  void ExpectEachCrashOfALongPutKeeps(const std::string& key, const std::string& value) {
    const Model before = model_;
    Copies copies;
    Reservation reservation;
    for (Code code = Code::kMakingRoom; code != Code::kOk;) {
      now_ += 1000;
      std::optional<StoreTracer> tracer;
      TraceMarks(&tracer, [&] {
        copies.push_back(Copy());
        return true;
      });
      code = table_->Reserve(table_->HashOf(key), key, value.size(), &reservation, now_);
      ASSERT_TRUE(code == Code::kOk || code == Code::kMakingRoom) << static_cast<int>(code);
    }
    StoreBytes(reservation.value.data(), value.data(), value.size() / 2);
    copies.push_back(Copy());
    StoreBytes(reservation.value.data(), value.data(), value.size());
    copies.push_back(Copy());
    WriteResult result{Code::kMakingRoom, 0, Slot()};
    while (result.code == Code::kMakingRoom) {
      now_ += 1000;
      const StoreTracer tracer(memory_->span(), [&] { copies.push_back(Copy()); });
      result = table_->Publish(reservation, Condition::kAlways, 0, now_);
    }
    ASSERT_EQ(result.code, Code::kOk);
    newest_ = std::max(newest_, result.version);
    model_[key] = {value, 0};
    ExpectAllKeep(before, key, std::move(copies));
  }
  // Traces the page that has marks and page map, and all memory from a move's first mark to its last store.
  // `after_store` returns false to end that.
  void TraceMarks(std::optional<StoreTracer>* tracer, const std::function<bool()>& after_store) const {
    constexpr int kStoresOfAMove = 7;
    constexpr uint64_t kPage = 4096;
    const absl::Span<char> all = memory_->span(), marks = all.subspan(header().MarksOf(0) / kPage * kPage, kPage);
    tracer->emplace(marks, [this, tracer, after_store, all, marks, from = Mark(kMoveFrom), left = 0]() mutable {
      if (left == 0 && Mark(kMoveFrom) != from) {
        from = Mark(kMoveFrom);
        left = kStoresOfAMove;
        (*tracer)->Watch(all);
      }
      const bool more = after_store();
      if (left > 0 && --left == 0) (*tracer)->Watch(marks);
      if (!more) (*tracer)->Watch({});
    });
  }

  // Continues the copies, which were made within a write of `key`, and one of what is there now.
  void ExpectAllKeep(const Model& before, const std::string& key, Copies copies) {
    copies.push_back(Copy());
    const auto held = model_.find(key);
    const std::optional<Held> after = held == model_.end() ? std::nullopt : std::optional(held->second);
    for (size_t i = 0; i < copies.size() && !HasFatalFailure(); ++i) {
      SCOPED_TRACE(i);
      ExpectWhole(Continue(std::move(copies[i])), before, key, after);
    }
  }

  RegionHeader header() const { return RegionHeader::For(memory_->span().size(), options_.partitions); }
  uint64_t Mark(uint64_t which) const { return LoadWord(memory_->span().data() + header().MarksOf(0) + which); }

  TestClock clock_;
  TableOptions options_;
  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
  Model model_;
  int64_t now_ = 1'000'000'000;
  uint64_t newest_ = 0;  // version
  uint64_t store_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_RECOVERY_TESTING_H_
