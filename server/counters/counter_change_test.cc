#include "server/counters/counter_change.h"

#include <cstdint>
#include <optional>

#include "gtest/gtest.h"
#include "kv/layout/counter_value.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

CounterChange Change(RequestType type, std::optional<int64_t> present, int64_t operand = 0, int64_t desired = 0) {
  kv::Request request;
  request.type = type;
  request.operands = {operand, desired};
  return ChangeOf(request, present);
}

TEST(CounterChange, OfNoneOnlyACreateMakesOne) {
  const CounterChange created = Change(RequestType::kCounterCreate, std::nullopt, 7);
  EXPECT_EQ(created.outcome.code, Code::kOk);
  EXPECT_EQ(created.outcome.counter.value, 7);
  EXPECT_EQ(created.next, 7);
  for (const RequestType type :
       {RequestType::kCounterAdd, RequestType::kCounterSwap, RequestType::kCounterRead, RequestType::kCounterDelete}) {
    const CounterChange change = Change(type, std::nullopt);
    EXPECT_EQ(change.outcome.code, Code::kNotFound);
    EXPECT_FALSE(change.next.has_value() || change.deletes);
  }
}

TEST(CounterChange, AnAddMayCreate) {
  kv::Request request;
  request.type = RequestType::kCounterAdd;
  request.operands.operand = -3;
  request.option.create = true;
  request.option.initial = 10;
  EXPECT_EQ(ChangeOf(request, std::nullopt).outcome.counter.value, 10);
  EXPECT_EQ(ChangeOf(request, std::nullopt).next, 7);
  EXPECT_EQ(ChangeOf(request, 5).outcome.counter.value, 5);
  EXPECT_EQ(ChangeOf(request, 5).next, 2);
  request.option.initial = -kv::kCounterEnd;
  EXPECT_EQ(ChangeOf(request, std::nullopt).outcome.code, Code::kOutOfRange);
  EXPECT_FALSE(ChangeOf(request, std::nullopt).next.has_value());
}

TEST(CounterChange, TellsWhatWasThereBefore) {
  EXPECT_EQ(Change(RequestType::kCounterCreate, 5, 7).outcome.code, Code::kExists);
  EXPECT_FALSE(Change(RequestType::kCounterCreate, 5, 7).next.has_value());
  EXPECT_EQ(Change(RequestType::kCounterAdd, 5, -7).next, -2);
  EXPECT_EQ(Change(RequestType::kCounterSwap, 5, 5, 9).next, 9);
  EXPECT_FALSE(Change(RequestType::kCounterSwap, 5, 6, 9).next.has_value());
  EXPECT_FALSE(Change(RequestType::kCounterRead, 5).next.has_value());
  EXPECT_TRUE(Change(RequestType::kCounterDelete, 5).deletes);
  for (const RequestType type : {RequestType::kCounterCreate, RequestType::kCounterAdd, RequestType::kCounterSwap,
                                 RequestType::kCounterRead, RequestType::kCounterDelete}) {
    EXPECT_EQ(Change(type, 5, 1, 2).outcome.counter.value, 5);
    EXPECT_EQ(Change(type, 5, 1, 2).outcome.result(), 5u);
  }
}

// No request makes a counter hold a number out of its range.
TEST(CounterChange, NeverLeavesTheRange) {
  const int64_t ends[] = {-kv::kCounterEnd, -1, 0, 1, kv::kCounterEnd - 1};
  const int64_t operands[] = {INT64_MIN, -kv::kDeadBegin, -kv::kCounterEnd - 1, -1, 0, 1, kv::kCounterEnd, INT64_MAX};
  for (const int64_t present : ends) {
    for (const int64_t operand : operands) {
      for (const RequestType type :
           {RequestType::kCounterCreate, RequestType::kCounterAdd, RequestType::kCounterSwap}) {
        for (const bool is_there : {false, true}) {
          const auto before = is_there ? std::optional<int64_t>(present) : std::nullopt;
          const int64_t first = type == RequestType::kCounterSwap ? present : operand;
          const CounterChange change = Change(type, before, first, operand);
          if (change.next.has_value()) {
            EXPECT_EQ(kv::StateOf(*change.next), kv::CellState::kLive);
          }
        }
      }
    }
  }
  EXPECT_EQ(Change(RequestType::kCounterAdd, kv::kCounterEnd - 1, 1).outcome.code, Code::kOutOfRange);
  EXPECT_EQ(Change(RequestType::kCounterSwap, 5, 5, kv::kCounterEnd).outcome.code, Code::kOutOfRange);
  EXPECT_EQ(Change(RequestType::kCounterCreate, std::nullopt, kv::kCounterEnd).outcome.code, Code::kOutOfRange);
}

}  // namespace
}  // namespace farlook::server
