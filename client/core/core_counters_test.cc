// Counters of the client over a fake network: the path of each operation, and the effects of dead cells, broken
// connections, notices and deadlines.
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/core/core_counters_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/counter_value.h"

namespace farlook::client {
namespace {

using absl::StatusCode;

constexpr int64_t kEnd = kv::kCounterEnd;

TEST_F(CoreCountersTest, TheFirstUseIsAMessageAndAllLaterOnesAreAtomics) {
  Connect();
  server_->table().InsertCounter(server_->table().HashOf("c"), "c", 64, 1);
  *server_->Cell("c") = 5;
  EXPECT_EQ(Add("c", 2), 5);
  EXPECT_EQ(network_.atomics, 0u);
  EXPECT_EQ(network_.sent.size(), 1u);
  EXPECT_EQ(Add("c", 3), 7);
  auto swap = Count(Kind::kCompareSwap, "c", /*operand=*/100, /*expected=*/10);
  EXPECT_TRUE(swap->status().ok());
  EXPECT_EQ(swap->operation.counter, 10);
  swap = Count(Kind::kCompareSwap, "c", 200, 10);
  EXPECT_TRUE(swap->status().ok());
  EXPECT_EQ(swap->operation.counter, 100);
  auto read = Count(Kind::kReadCounter, "c");
  EXPECT_EQ(read->operation.counter, 100);
  EXPECT_EQ(network_.atomics, 3u);
  EXPECT_EQ(network_.sent.size(), 1u);
  EXPECT_EQ(core_->stats().atomics, 4u);
  EXPECT_EQ(core_->stats().counter_requests, 1u);
}

TEST_F(CoreCountersTest, ACreatorKnowsTheCell) {
  Connect();
  Create("c", 1);
  EXPECT_EQ(Add("c", 1), 1);
  EXPECT_EQ(network_.sent.size(), 1u);
  auto again = Count(Kind::kCreateCounter, "c", 9);
  EXPECT_EQ(again->code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(again->operation.counter, 2);
}

TEST_F(CoreCountersTest, WithoutAtomicsOrWithoutTheKeyEverythingIsAMessage) {
  for (const bool atomics : {true, false}) {
    network_.capabilities.atomics = atomics;
    server_->offer_cells = !atomics;
    Connect();
    const std::string key = absl::StrCat("c", atomics);
    Create(key, 1);
    EXPECT_EQ(Add(key, 1), 1);
    EXPECT_EQ(Add(key, 1), 2);
    EXPECT_EQ(Count(Kind::kReadCounter, key)->operation.counter, 3);
    EXPECT_EQ(Count(Kind::kCompareSwap, key, 9, 3)->operation.counter, 3);
    EXPECT_EQ(*server_->Cell(key), 9);
    EXPECT_EQ(network_.atomics, 0u);
    core_.reset();
  }
}

TEST_F(CoreCountersTest, ExactlyOnceIsAMessage) {
  Connect();
  Create("c", 1);
  OwnedOperation add(Kind::kFetchAdd, "c");
  add.operation.operand = 4;
  add.operation.exactly_once = true;
  network_.lose_replies = true;
  core_->Start(&add.operation);
  Poll();
  EXPECT_EQ(*server_->Cell("c"), 5);
  network_.lose_replies = false;
  network_.Break();
  PollFor(100, add.operation);
  Poll();
  ASSERT_TRUE(add.done());
  EXPECT_TRUE(add.status().ok()) << add.status();
  EXPECT_EQ(add.operation.counter, 1);
  EXPECT_EQ(*server_->Cell("c"), 5) << "once";
  EXPECT_EQ(network_.atomics, 0u);
  ExpectNoViolations();
}

TEST_F(CoreCountersTest, AnAtomicUnderABrokenConnectionIsOfUnknownOutcomeAndNotRepeated) {
  Connect();
  Create("c", 1);
  network_.hold_reads = true;
  auto add = Begin(Kind::kFetchAdd, "c", 4);
  auto swap = Begin(Kind::kCompareSwap, "c", 4, 1);
  auto read = Begin(Kind::kReadCounter, "c");
  Poll();
  ASSERT_EQ(network_.held_reads(), 3u);
  network_.Break();
  network_.hold_reads = false;
  PollFor(100, read->operation);
  Poll();
  EXPECT_EQ(add->code(), StatusCode::kUnknown) << add->status();
  EXPECT_EQ(swap->code(), StatusCode::kUnknown);
  EXPECT_TRUE(read->status().ok()) << "reading again does no harm: " << read->status();
  EXPECT_EQ(*server_->Cell("c"), 1);
  EXPECT_EQ(core_->stats().unknown_atomics, 2u);
}

TEST_F(CoreCountersTest, ACellIsForgottenWithItsConnection) {
  Connect();
  Create("c", 1);
  network_.Break();
  EXPECT_EQ(Add("c", 1), 1);
  EXPECT_EQ(network_.atomics, 0u) << "asked anew";
  EXPECT_EQ(Add("c", 1), 2);
  EXPECT_EQ(network_.atomics, 1u);
}

TEST_F(CoreCountersTest, WhatWasNotPostedIsDoneOnTheNextConnection) {
  Connect();
  Create("c", 1);
  network_.read_room = 0;
  auto add = Begin(Kind::kFetchAdd, "c", 4);
  Poll();
  network_.Break();
  network_.read_room = SIZE_MAX;
  PollFor(100, add->operation);
  Poll();
  EXPECT_TRUE(add->status().ok()) << add->status();
  EXPECT_EQ(*server_->Cell("c"), 5);
}

TEST_F(CoreCountersTest, AnAddBeyondTheEndIsTakenBackAndAnError) {
  Connect();
  Create("c", kEnd - 3);
  auto add = Count(Kind::kFetchAdd, "c", 3);
  EXPECT_EQ(add->code(), StatusCode::kOutOfRange) << add->status();
  EXPECT_EQ(add->operation.counter, kEnd - 3);
  EXPECT_EQ(*server_->Cell("c"), kEnd - 3);
  EXPECT_EQ(Add("c", 2), kEnd - 3);
  Create("d", -kEnd);
  EXPECT_EQ(Count(Kind::kFetchAdd, "d", -1)->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*server_->Cell("d"), -kEnd);
}

TEST_F(CoreCountersTest, ACounterOutOfRangeIsAnErrorUntilItIsReset) {
  Connect();
  Create("c", 0);
  *server_->Cell("c") = kEnd + 7;
  EXPECT_EQ(Count(Kind::kFetchAdd, "c", -100)->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*server_->Cell("c"), kEnd + 7);
  auto read = Count(Kind::kReadCounter, "c");
  EXPECT_EQ(read->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(read->operation.counter, kEnd + 7);
  EXPECT_EQ(Count(Kind::kCompareSwap, "c", 5, 6)->code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(Count(Kind::kCompareSwap, "c", 5, kEnd + 7)->status().ok());
  EXPECT_EQ(*server_->Cell("c"), 5);
}

TEST_F(CoreCountersTest, ImpossibleNumbersAreRefusedAtOnce) {
  Connect();
  EXPECT_EQ(Count(Kind::kFetchAdd, "c", kv::kMaxCounterDelta + 1)->code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(Kind::kCreateCounter, "c", kEnd)->code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(Kind::kCompareSwap, "c", kEnd, 0)->code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(Kind::kCompareSwap, "c", 0, std::numeric_limits<int64_t>::max())->code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Count(Kind::kFetchAdd, "", 1)->code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(network_.sent.empty());
}

TEST_F(CoreCountersTest, ValuesAndCountersAreToldApart) {
  Connect();
  Create("c", 1);
  ASSERT_TRUE(Put("v", "text").ok());
  EXPECT_EQ(Do(Kind::kGet, "c")->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Do(Kind::kPut, "c", "text")->code(), StatusCode::kFailedPrecondition);
  auto add = Count(Kind::kFetchAdd, "v", 1);
  EXPECT_EQ(add->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(add->status().message(), "the key names a value, not a counter");
}

TEST_F(CoreCountersTest, ManyMoreThanMayBeInFlightAreAllDoneInTheEnd) {
  options_.max_in_flight = 4;
  Connect();
  Create("c", 0);
  network_.read_room = 3;
  std::vector<std::unique_ptr<OwnedOperation>> adds;
  for (int i = 0; i < 100; ++i) adds.push_back(Begin(Kind::kFetchAdd, "c", 1));
  Poll();
  network_.read_room = SIZE_MAX;
  for (auto& add : adds) PollFor(100, add->operation);
  Poll();
  for (auto& add : adds) EXPECT_TRUE(add->status().ok()) << add->status();
  EXPECT_EQ(*server_->Cell("c"), 100);
  EXPECT_EQ(core_->in_flight(), 0u);
}

TEST_F(CoreCountersTest, AReadOnlyClientReadsCountersByMessage) {
  Connect();
  Create("c", 5);
  core_.reset();
  options_.read_only = true;
  server_->offer_cells = false;
  Connect();
  EXPECT_EQ(Count(Kind::kReadCounter, "c")->operation.counter, 5);
  EXPECT_EQ(Count(Kind::kFetchAdd, "c", 1)->code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Count(Kind::kCreateCounter, "d")->code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Count(Kind::kDeleteCounter, "c")->code(), StatusCode::kPermissionDenied);
}

TEST_F(CoreCountersTest, NoMoreAtomicsAreInFlightThanTheServerGrants) {
  for (const uint32_t granted : {3u, 1u}) {  // fewer the second time, over another connection
    SCOPED_TRACE(granted);
    server_->atomics = granted;
    if (granted == 3) {
      Connect();
      Create("c");
    } else {
      network_.Break();
    }
    Add("c", 1);  // this connection learns the cell
    const uint64_t before = network_.atomics;
    std::vector<std::unique_ptr<OwnedOperation>> adds;
    for (int i = 0; i < 8; ++i) adds.push_back(Begin(Kind::kFetchAdd, "c", 1));
    EXPECT_EQ(network_.atomics - before, granted);
    for (const auto& add : adds) {
      PollFor(options_.timeout_ms + 1, add->operation);
      EXPECT_TRUE(add->status().ok()) << add->status();
    }
    EXPECT_EQ(network_.atomics - before, adds.size());
  }
}

// Expect: operations that change a key or a counter by message keep the order in which they were started. This holds
// also before there is a connection, and while atomics wait for their turn.
TEST_F(CoreCountersTest, RequestsKeepTheirOrderWithOtherWrites) {
  MakeCore();
  auto create = Begin(Kind::kCreateCounter, "c", 5);
  auto erase = Begin(Kind::kDeleteCounter, "c");
  auto put = Start(Kind::kPut, "c", "value");
  Poll();
  EXPECT_TRUE(create->done() && create->status().ok()) << create->status();
  EXPECT_TRUE(erase->done() && erase->status().ok()) << erase->status();
  EXPECT_TRUE(put->done() && put->status().ok()) << put->status();
  EXPECT_EQ(Get("c"), "value");

  server_->atomics = 1;
  network_.Break();
  Poll();
  Create("d");
  EXPECT_EQ(Add("d", 1), 0);
  network_.hold_reads = true;
  auto first = Begin(Kind::kFetchAdd, "d", 1);
  auto second = Begin(Kind::kFetchAdd, "d", 1);  // waits for the only flight
  auto exactly = std::make_unique<OwnedOperation>(Kind::kFetchAdd, "d");
  exactly->operation.operand = 10;
  exactly->operation.exactly_once = true;
  core_->Start(&exactly->operation);
  auto erase_d = Begin(Kind::kDeleteCounter, "d");
  auto put_d = Start(Kind::kPut, "d", "value");
  Poll();
  EXPECT_TRUE(exactly->done() && exactly->status().ok()) << exactly->status();
  EXPECT_TRUE(erase_d->done() && erase_d->status().ok()) << erase_d->status();
  EXPECT_TRUE(put_d->done() && put_d->status().ok()) << put_d->status();
  EXPECT_FALSE(first->done());
  EXPECT_FALSE(second->done());
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(first->code(), StatusCode::kFailedPrecondition) << "the key names a value by now: " << first->status();
  EXPECT_EQ(second->code(), StatusCode::kFailedPrecondition) << second->status();
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
