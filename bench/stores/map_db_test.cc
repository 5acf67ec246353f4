#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/stores/db_registry.h"
#include "bench/stores/record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::HasSubstr;

class MapDbTest : public testing::Test {
 protected:
  MapDbTest() {
    RegisterMapDb(&registry_);
    const Properties properties;
    PropertyReader reader(&properties);
    backend_ = *(*registry_.Find("map"))->open(&reader);
    db_ = Connect();
  }

  std::unique_ptr<Db> Connect() { return *backend_->Connect({}); }

  static std::string Record(const std::vector<absl::string_view>& fields) {
    std::string record;
    EncodeRecord(fields, &record);
    return record;
  }

  DbRegistry registry_;
  std::unique_ptr<DbBackend> backend_;
  std::unique_ptr<Db> db_;
};

TEST_F(MapDbTest, WhatIsInsertedIsReadByEveryConnection) {
  EXPECT_EQ(db_->Insert("k", Record({"a", "b"})), DbStatus::kOk);
  ReadResult result;
  EXPECT_EQ(Connect()->Read("k", &result), DbStatus::kOk);
  EXPECT_EQ(result.record, Record({"a", "b"}));
}

TEST_F(MapDbTest, WhatIsNotThereIsNotFound) {
  ReadResult result;
  EXPECT_EQ(db_->Read("k", &result), DbStatus::kNotFound);
  EXPECT_EQ(db_->Replace("k", "r"), DbStatus::kNotFound);
  EXPECT_EQ(db_->Patch("k", {}, nullptr), DbStatus::kNotFound);
  EXPECT_THAT(db_->last_error(), HasSubstr("no record k"));
}

TEST_F(MapDbTest, APatchChangesOneFieldAndReplaceAll) {
  ASSERT_EQ(db_->Insert("k", Record({"a", "b"})), DbStatus::kOk);
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{1, "new"}}, nullptr), DbStatus::kOk);
  ReadResult result;
  ASSERT_EQ(db_->Read("k", &result), DbStatus::kOk);
  EXPECT_EQ(result.record, Record({"a", "new"}));
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{2, "x"}}, nullptr), DbStatus::kUnexpectedState);
  EXPECT_EQ(db_->Replace("k", Record({"c"})), DbStatus::kOk);
  ASSERT_EQ(db_->Read("k", &result), DbStatus::kOk);
  EXPECT_EQ(result.record, Record({"c"}));
}

TEST_F(MapDbTest, ABatchHasAStatusForEachKey) {
  ASSERT_EQ(db_->Insert("b", "record"), DbStatus::kOk);
  const std::vector<absl::string_view> keys = {"a", "b"};
  std::vector<ReadResult> results(2);
  db_->ReadBatch(keys, absl::MakeSpan(results));
  EXPECT_EQ(results[0].status, DbStatus::kNotFound);
  EXPECT_EQ(results[1].status, DbStatus::kOk);
  EXPECT_EQ(results[1].record, "record");
}

TEST_F(MapDbTest, SubmittedRequestsEnd) {
  DbRequest insert, read, patch;
  insert.kind = DbRequest::Kind::kInsert;
  insert.key = read.key = patch.key = "k";
  insert.record = Record({"a"});
  patch.kind = DbRequest::Kind::kPatch;
  patch.writes = {{0, "b"}};
  std::vector<DbRequest*> done(2);
  EXPECT_EQ(db_->Poll(absl::MakeSpan(done), 0), 0u);
  db_->Submit(&insert);
  db_->Submit(&patch);
  db_->Submit(&read);
  ASSERT_EQ(db_->Poll(absl::MakeSpan(done), 0), 2u);
  EXPECT_EQ(done, (std::vector<DbRequest*>{&insert, &patch}));
  ASSERT_EQ(db_->Poll(absl::MakeSpan(done), 0), 1u);
  EXPECT_EQ(done[0], &read);
  EXPECT_EQ(read.status, DbStatus::kOk);
  EXPECT_EQ(read.result.record, Record({"b"}));
}

TEST_F(MapDbTest, PatchesOfManyThreadsAreAllKept) {
  ASSERT_EQ(db_->Insert("k", Record({"", "", "", ""})), DbStatus::kOk);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::unique_ptr<Db> db = Connect();
      for (size_t i = 1; i <= 500; ++i) {
        ASSERT_EQ(db->Patch("k", std::vector<FieldWrite>{{t, std::string(i, 'x')}}, nullptr), DbStatus::kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ReadResult result;
  ASSERT_EQ(db_->Read("k", &result), DbStatus::kOk);
  EXPECT_EQ(result.record, Record(std::vector<absl::string_view>(4, std::string(500, 'x'))));
}

TEST(DbRegistryTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  DbRegistry registry;
  RegisterMapDb(&registry);
  EXPECT_THAT(std::string(registry.Find("mup").status().message()), HasSubstr("there are: map"));
}

}  // namespace
}  // namespace farlook::bench
