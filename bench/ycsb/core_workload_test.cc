#include "bench/ycsb/core_workload.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/stores/record.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

WorkloadConfig Config(int64_t records) {
  WorkloadConfig config;
  config.keys.count = config.keys.record_count = records;
  return config;
}

TEST(CoreWorkloadTest, TheLoadInsertsEachRecordOnce) {
  WorkloadConfig config = Config(100);
  config.keys.first = 40;
  config.keys.count = 60;
  CoreWorkload workload(config);
  const auto a = workload.NewThread(1), b = workload.NewThread(2);
  std::set<std::string> keys;
  Task task;
  for (int i = 0; i < 60; ++i) {
    (i % 3 == 0 ? a : b)->NextLoad(&task);
    EXPECT_EQ(task.operation, Operation::kInsert);
    EXPECT_EQ(task.write.kind, DbRequest::Kind::kInsert);
    EXPECT_EQ(task.number, 40 + i);
    EXPECT_TRUE(keys.insert(task.write.key).second);
    EXPECT_EQ(task.write.record.size(), 1011u);
  }
}

TEST(CoreWorkloadTest, OperationsHaveTheirProportions) {
  WorkloadConfig config = Config(1000);
  config.read_proportion = 0.5;
  config.update_proportion = 0.2;
  config.insert_proportion = 0.1;
  config.read_modify_write_proportion = 0.2;
  CoreWorkload workload(config);
  const auto thread = workload.NewThread(3);
  constexpr int kTasks = 100'000;
  std::map<Operation, int> seen;
  Task task;
  for (int i = 0; i < kTasks; ++i) {
    thread->NextTransaction(&task);
    ++seen[task.operation];
    ASSERT_TRUE(thread->Finished(task));
  }
  const auto near = [&seen](Operation operation, double share) {
    EXPECT_NEAR(seen[operation], kTasks * share, 5 * std::sqrt(kTasks * share * (1 - share)));
  };
  near(Operation::kRead, 0.5);
  near(Operation::kUpdate, 0.2);
  near(Operation::kInsert, 0.1);
  near(Operation::kReadModifyWrite, 0.2);
}

TEST(CoreWorkloadTest, AnUpdateWritesOneFieldOfTenOrAll) {
  WorkloadConfig config = Config(10);
  config.read_proportion = 0;
  config.update_proportion = 1;
  for (bool all : {false, true}) {
    config.write_all_fields = all;
    CoreWorkload workload(config);
    const auto thread = workload.NewThread(4);
    std::set<size_t> fields;
    Task task;
    for (int i = 0; i < 200; ++i) {
      thread->NextTransaction(&task);
      if (all) {
        EXPECT_EQ(task.write.kind, DbRequest::Kind::kReplace);
        EXPECT_EQ(task.write.record.size(), 1011u);
      } else {
        EXPECT_EQ(task.write.kind, DbRequest::Kind::kPatch);
        ASSERT_EQ(task.write.writes.size(), 1u);
        EXPECT_EQ(task.write.writes[0].bytes.size(), 100u);
        fields.insert(task.write.writes[0].field);
      }
    }
    EXPECT_EQ(fields.size(), all ? 0u : 10u);
  }
}

TEST(CoreWorkloadTest, AReadModifyWriteReadsAndWritesTheSameKey) {
  WorkloadConfig config = Config(1000);
  config.read_proportion = config.update_proportion = 0;
  config.read_modify_write_proportion = 1;
  CoreWorkload workload(config);
  const auto thread = workload.NewThread(5);
  Task task;
  for (int i = 0; i < 100; ++i) {
    thread->NextTransaction(&task);
    EXPECT_EQ(task.operation, Operation::kReadModifyWrite);
    EXPECT_EQ(task.read.key, task.write.key);
  }
}

TEST(CoreWorkloadTest, InsertedRecordsAreReadOnlyOnceTheyAreFinished) {
  WorkloadConfig config = Config(10);
  config.request_distribution = Distribution::kLatest;
  config.read_proportion = 0.5;
  config.update_proportion = 0;
  config.insert_proportion = 0.5;
  CoreWorkload workload(config);
  const auto thread = workload.NewThread(6);
  std::vector<Task> inserts;
  for (int i = 0; i < 200; ++i) {
    Task task;
    thread->NextTransaction(&task);
    if (task.operation == Operation::kInsert) {
      EXPECT_EQ(task.number, 10 + static_cast<int64_t>(inserts.size()));
      inserts.push_back(task);
    } else {
      EXPECT_LT(task.number, 10);
    }
  }
  for (const Task& task : inserts) EXPECT_TRUE(thread->Finished(task));
  bool newest = false;
  Task task;
  for (int i = 0; i < 200; ++i) {
    thread->NextTransaction(&task);
    newest = newest || (task.operation == Operation::kRead && task.number > 10);
  }
  EXPECT_TRUE(newest);
}

class VerifyTest : public testing::Test {
 protected:
  static WorkloadConfig IntegrityConfig() {
    WorkloadConfig config = Config(5);
    config.data_integrity = true;
    return config;
  }

  // A read task whose result is what the load wrote.
  Task ReadBack() {
    Task task;
    thread_->NextLoad(&task);
    task.operation = Operation::kRead;
    task.read.key = task.write.key;
    task.read.result.buffer = task.write.record;
    task.read.result.record = task.read.result.buffer;
    task.read.result.status = DbStatus::kOk;
    return task;
  }

  CoreWorkload workload_{IntegrityConfig()};
  std::unique_ptr<WorkloadThread> thread_ = workload_.NewThread(8);
};

TEST_F(VerifyTest, WhatWasWrittenIsRight) {
  Task task = ReadBack();
  task.read.result.record = task.read.result.buffer;
  EXPECT_EQ(thread_->Verify(task), DbStatus::kOk);
}

TEST_F(VerifyTest, EveryWrongByteIsFound) {
  Task task = ReadBack();
  for (size_t i = 0; i < task.write.record.size(); ++i) {
    task.read.result.buffer = task.write.record;
    task.read.result.buffer[i] = static_cast<char>(task.read.result.buffer[i] ^ 1);
    task.read.result.record = task.read.result.buffer;
    EXPECT_EQ(thread_->Verify(task), DbStatus::kUnexpectedState) << i;
  }
}

TEST_F(VerifyTest, TheRecordOfAnotherKeyIsFound) {
  Task task = ReadBack();
  task.read.result.record = task.read.result.buffer;
  task.read.key = "user1";
  EXPECT_EQ(thread_->Verify(task), DbStatus::kUnexpectedState);
}

TEST_F(VerifyTest, NothingWhereThereShouldBeSomethingIsAnError) {
  Task task = ReadBack();
  task.read.result.status = DbStatus::kNotFound;
  EXPECT_EQ(thread_->Verify(task), DbStatus::kError);
}

}  // namespace
}  // namespace farlook::bench
