// The client's knowledge of cells, and how notices, dead cells and corrupt memory affect it.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/core/core_counters_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/counter_value.h"
#include "kv/wire/cell_notice.h"

namespace farlook::client {
namespace {

using absl::StatusCode;

TEST_F(CoreCountersTest, ADeadCellIsLookedUpAfreshBeforeNotFound) {
  Connect();
  Create("c", 1);
  server_->DeleteCounter("c");
  auto add = Count(Kind::kFetchAdd, "c", 1);
  EXPECT_EQ(add->code(), StatusCode::kNotFound);
  EXPECT_EQ(core_->stats().dead_cells, 1u);
  Create("c", 10);
  server_->DeleteCounter("c");
  server_->table().InsertCounter(server_->table().HashOf("c"), "c", 640, 1);
  *server_->Cell("c") = 50;
  // Expect: the old cell is dead, and the counter exists again.
  EXPECT_EQ(Add("c", 1), 50);
  EXPECT_EQ(*server_->Cell("c"), 51);
  EXPECT_EQ(Add("c", 1), 51);
  for (const Kind kind : {Kind::kCompareSwap, Kind::kReadCounter}) {
    server_->DeleteCounter("c");
    EXPECT_EQ(Count(kind, "c", 1, 1)->code(), StatusCode::kNotFound);  // the operand of a READ is ignored
    Create("c");
  }
}

TEST_F(CoreCountersTest, AnAddThatMayCreateIsAnAtomicWhereTheCellIsKnown) {
  Connect();
  const auto add = [this](int64_t delta) {
    auto owned = std::make_unique<OwnedOperation>(Kind::kFetchAdd, "c");
    owned->operation.operand = delta;
    owned->operation.create = true;
    owned->operation.expected = 10;
    core_->Start(&owned->operation);
    PollFor(options_.timeout_ms + 1, owned->operation);
    EXPECT_TRUE(owned->status().ok()) << owned->status();
    return owned->operation.counter;
  };
  EXPECT_EQ(add(1), 10);
  EXPECT_EQ(network_.atomics, 0u);
  EXPECT_EQ(add(1), 11);
  EXPECT_EQ(network_.atomics, 1u);
  // Expect: if the cell is dead, the server creates another counter.
  server_->DeleteCounter("c");
  EXPECT_EQ(add(5), 10);
  EXPECT_EQ(*server_->Cell("c"), 15);
  EXPECT_EQ(core_->stats().dead_cells, 1u);
}

TEST_F(CoreCountersTest, ANoticeIsAcknowledgedAtOnceWhenNothingIsUnderWay) {
  Connect();
  Create("c", 1);
  Create("d", 1);
  Notice(7, {"c", "unknown"});
  EXPECT_EQ(server_->acknowledged, (std::vector<uint64_t>{7}));
  Add("d", 1);
  EXPECT_EQ(network_.atomics, 1u) << "the others stay known";
  Add("c", 1);
  EXPECT_EQ(network_.atomics, 1u) << "this one does not";
  ExpectNoViolations();
}

TEST_F(CoreCountersTest, ANoticeIsAcknowledgedWhenAllThatWasUnderWayHasCompleted) {
  Connect();
  Create("c", 1);
  network_.hold_reads = true;
  auto first = Begin(Kind::kFetchAdd, "c", 1);
  auto second = Begin(Kind::kReadCounter, "c");
  Poll();
  server_->DeleteCounter("c");
  Notice(7, {"c"});
  EXPECT_TRUE(server_->acknowledged.empty());
  auto later = Begin(Kind::kFetchAdd, "c", 1);  // by message: the cell is not known
  Poll();
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(server_->acknowledged, (std::vector<uint64_t>{7}));
  EXPECT_EQ(first->code(), StatusCode::kNotFound);
  EXPECT_EQ(second->code(), StatusCode::kNotFound);
  EXPECT_EQ(later->code(), StatusCode::kNotFound);
}

TEST_F(CoreCountersTest, AnOperationThatExpiredStillHoldsItsCellUntilItsAtomicCompletes) {
  Connect();
  Create("c", kv::kCounterEnd - 1);
  network_.hold_reads = true;
  auto add = Begin(Kind::kFetchAdd, "c", 1, 0, /*timeout_ms=*/10);
  Poll();
  clock_.AdvanceMs(20);
  Poll();
  EXPECT_EQ(add->code(), StatusCode::kDeadlineExceeded);
  add.reset();  // Expect: nothing refers to it any more.
  Notice(7, {"c"});
  EXPECT_TRUE(server_->acknowledged.empty());
  network_.ReleaseReads();  // the value left the range and has to be restored
  Poll();
  EXPECT_TRUE(server_->acknowledged.empty());
  EXPECT_EQ(*server_->Cell("c"), kv::kCounterEnd);
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(*server_->Cell("c"), kv::kCounterEnd - 1);
  EXPECT_EQ(server_->acknowledged, (std::vector<uint64_t>{7}));
}

TEST_F(CoreCountersTest, AnAcknowledgementThatFindsNoRoomGoesLater) {
  Connect();
  Create("c", 1);
  network_.send_room = 0;
  Notice(7, {"c"});
  EXPECT_TRUE(server_->acknowledged.empty());
  network_.send_room = SIZE_MAX;
  Poll();
  EXPECT_EQ(server_->acknowledged, (std::vector<uint64_t>{7}));
}

TEST_F(CoreCountersTest, ANoticeDoesNotOutliveItsConnection) {
  Connect();
  Create("c", 1);
  network_.hold_reads = true;
  auto add = Begin(Kind::kFetchAdd, "c", 1);
  Poll();
  Notice(7, {"c"});
  network_.Break();
  network_.hold_reads = false;
  Poll();
  EXPECT_EQ(add->code(), StatusCode::kUnknown);
  EXPECT_EQ(Add("c", 1), 1);
  EXPECT_TRUE(server_->acknowledged.empty());
  Notice(1, {"c"});
  EXPECT_EQ(server_->acknowledged, (std::vector<uint64_t>{1}));
}

TEST_F(CoreCountersTest, ASecondNoticeBeforeTheAnswerOrNonsenseBreaksTheConnection) {
  Connect();
  Create("c", 1);
  network_.send_room = 0;
  Notice(7, {"c"});
  Notice(8, {"c"});
  network_.send_room = SIZE_MAX;
  EXPECT_EQ(Add("c", 1), 1);
  EXPECT_EQ(core_->stats().reconnects, 1u);
  network_.Inject("\x80 nonsense");
  Poll();
  EXPECT_EQ(Add("c", 1), 2);
  EXPECT_EQ(core_->stats().reconnects, 2u);
}

TEST_F(CoreCountersTest, ADeadServersMemoryIsNotBelieved) {
  Connect();
  Create("c", 0);
  network_.hold_reads = true;
  auto add = Begin(Kind::kFetchAdd, "c", 1);
  network_.server_alive = false;
  network_.ReleaseReads();
  network_.accepting = true;
  Poll();
  EXPECT_EQ(add->code(), StatusCode::kUnknown);
}

TEST_F(CoreCountersTest, AFalseCellIsNotUsed) {
  Connect();
  server_->table().InsertCounter(server_->table().HashOf("c"), "c", 64, 1);
  *server_->Cell("c") = 1;
  network_.hold_requests = true;
  auto add = Begin(Kind::kFetchAdd, "c", 1);
  Poll();
  kv::Reply reply;
  reply.number = 1;
  char bytes[kv::Reply::kHeaderBytes + kv::CounterResult::kBytes];
  kv::CounterResult{1, uint64_t{1} << 40}.Encode(bytes + kv::Reply::kHeaderBytes);
  reply.payload = {bytes + kv::Reply::kHeaderBytes, kv::CounterResult::kBytes};
  reply.EncodeHead(bytes);
  network_.Inject({bytes, sizeof bytes});
  Poll();
  ASSERT_TRUE(add->done());
  network_.hold_requests = false;
  auto next = Begin(Kind::kFetchAdd, "c", 1);
  Poll();
  EXPECT_EQ(network_.atomics, 0u);
}

}  // namespace
}  // namespace farlook::client
