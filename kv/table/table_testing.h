// A table in separate memory, for tests.
#ifndef FARLOOK_KV_TABLE_TABLE_TESTING_H_
#define FARLOOK_KV_TABLE_TABLE_TESTING_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "kv/layout/test_region.h"
#include "kv/table/table.h"

namespace farlook::kv {

class TableFixture : public testing::Test {
 protected:
  void Make(uint64_t bytes, int partitions = 1) {
    table_.reset();
    memory_ = std::make_unique<TestMemory>(bytes);
    TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    options.partitions = partitions;
    auto table = Table::Create(memory_->span(), options);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *std::move(table);
  }

  std::unique_ptr<TestMemory> memory_;
  std::unique_ptr<Table> table_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_TABLE_TABLE_TESTING_H_
