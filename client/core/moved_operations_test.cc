#include "client/core/moved_operations.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/core/moves_testing.h"
#include "client/core/slot_owners.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

constexpr int64_t kMs = 1'000'000;

// ---- The order, without cores.

class QueueTest : public MovesTest {
 protected:
  Operation* Make(Kind kind, const std::string& key, const char* name) {
    Operation& operation = all_of_them_.emplace_back(kind, key, name).operation;
    operation.hash = kv::Hasher(99)(key);
    return &operation;
  }
  void Return(Kind kind, const std::string& key, const char* name, uint64_t number, bool only_asked) {
    Operation* const operation = Make(kind, key, name);
    operation->number = number;
    operation->only_asked = only_asked;
    operation->deadline_ns = INT64_MAX;
    moved_.Return(operation);
  }
  std::vector<std::string> Release(const kv::SlotSet& slots) {
    std::vector<std::string> order;
    moved_.Release(slots, [&order](Operation* operation) {
      order.push_back((operation->after_moved ? "*" : "") + std::string(operation->value));
    });
    return order;
  }
  using Order = std::vector<std::string>;

  SlotOwners owners_{kGroups};
  MovedOperations moved_{&owners_, options_, clock_};
  std::deque<OwnedOperation> all_of_them_;
};

TEST_F(QueueTest, WhatIsRefusedLateWaitsBeforeWritesThatWereSentAfterIt) {
  Return(Kind::kGet, key_, "unsent", Operation::kNotSent, false);
  Return(Kind::kGet, key_, "get 99", 99, false);
  Return(Kind::kPut, key_, "37", 37, false);
  Return(Kind::kPut, key_, "40", 40, false);
  Return(Kind::kPut, key_, "38", 38, true);
  Return(Kind::kPut, key_, "36", 36, true);
  Return(Kind::kPut, key_, "41", 41, true);
  EXPECT_EQ(Release(SlotsOf({key_})), (Order{"unsent", "get 99", "*36", "37", "38", "40", "41"}));
  EXPECT_FALSE(moved_.holds());
  EXPECT_EQ(moved_.in_flight(), 0u);
}

TEST_F(QueueTest, WhatACoreReturnsIsBeforeWhatWasStartedMeanwhile) {
  moved_.Start(Make(Kind::kPut, key_, "later"), 900'000 * kMs);
  Return(Kind::kPut, key_, "37", 37, false);
  Return(Kind::kPut, key_, "unsent", Operation::kNotSent, false);
  moved_.Start(Make(Kind::kPut, key_, "last"), 900'000 * kMs);
  EXPECT_EQ(Release(SlotsOf({key_})), (Order{"*37", "unsent", "later", "last"}));
}

TEST_F(QueueTest, EachSlotHasItsQueue) {
  std::string other = "other";
  while (SlotOf(other) == SlotOf(key_)) other += "!";
  moved_.Start(Make(Kind::kPut, other, "other"), 900'000 * kMs);
  moved_.Start(Make(Kind::kGet, key_, "get"), 900'000 * kMs);
  moved_.Start(Make(Kind::kPut, key_, "put"), 900'000 * kMs);
  EXPECT_EQ(Release(SlotsOf({key_})), (Order{"get", "*put"}));
  EXPECT_TRUE(moved_.holds());
  EXPECT_EQ(Release(SlotsOf({other})), (Order{"*other"}));
  EXPECT_FALSE(moved_.holds());
}

TEST_F(QueueTest, WhatIsInvalidEndsAtOnce) {
  Operation* const operation = Make(Kind::kPut, "", "");
  moved_.Start(operation, 900'000 * kMs);
  EXPECT_TRUE(absl::IsInvalidArgument(operation->status)) << operation->status;
  EXPECT_FALSE(moved_.holds());
  EXPECT_TRUE(moved_.has_ended());
  Operation* done;
  EXPECT_EQ(moved_.Take({&done, 1}), 1u);
  EXPECT_EQ(moved_.in_flight(), 0u);
}

TEST_F(QueueTest, OperationsEndAtTheirDeadlines) {
  const int64_t now_ns = clock_.NowNs();
  Operation* const first = Make(Kind::kPut, key_, "1");
  Operation* const second = Make(Kind::kGet, key_, "2");
  second->timeout_ms = 80;
  moved_.Start(first, now_ns + 50 * kMs);
  moved_.Start(second, ClientCore::kNoDeadline);
  EXPECT_LE(moved_.due_ns(now_ns), now_ns + 50 * kMs);
  clock_.AdvanceMs(49);
  moved_.Turn({});
  EXPECT_FALSE(first->done);
  clock_.AdvanceMs(1);
  moved_.Turn({});
  EXPECT_TRUE(absl::IsDeadlineExceeded(first->status)) << first->status;
  EXPECT_FALSE(second->done);
  clock_.AdvanceMs(31);
  moved_.Turn({});
  EXPECT_TRUE(second->done);
  EXPECT_FALSE(moved_.holds());
  EXPECT_EQ(moved_.due_ns(clock_.NowNs()), ClientCore::kNoDeadline);
  EXPECT_EQ(moved_.stats().timeouts, 2u);
}

// ---- When slots that are refused are tried again.

TEST_F(MovesTest, WhatItsOwnerRefusesIsTriedAgainAfterPausesThatDouble) {
  Connect();
  Refuse(SlotsOf({key_}));
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  std::vector<int64_t> tries_ms;
  for (const int64_t end_ms = clock_.now_ms() + 130; clock_.now_ms() < end_ms;) {
    networks_[kGiver]->sent.clear();
    PollFor(1);
    for (const std::string& message : networks_[kGiver]->sent) {
      const auto request = kv::Request::Decode(message);
      if (request.ok() && request->type == kv::RequestType::kPut) tries_ms.push_back(clock_.now_ms());
    }
  }
  ASSERT_GE(tries_ms.size(), 8u);
  for (const auto& [i, pause_ms] : {std::pair<size_t, int64_t>{2, 8}, {3, 16}, {4, 20}, {5, 20}}) {
    EXPECT_NEAR(static_cast<double>(tries_ms[i + 1] - tries_ms[i]), static_cast<double>(pause_ms), 2.0) << i;
  }
  servers_[kGiver]->moved.reset();
  PollUntil(put->operation, 25);
  ExpectNoViolations();
}

// ---- Slots without a group.

TEST_F(MovesTest, WhereAnotherOneHasItThereIsNoPause) {
  Connect();
  const kv::SlotSet slots = SlotsOf({key_});
  Refuse(slots);
  auto put = Prepare(Kind::kPut);
  Start(&put->operation);
  PollFor(100);  // the pause is 20 ms long by now
  Give(slots);
  Take(slots);
  PollUntil(put->operation, 60);
  EXPECT_EQ(servers_[kTaker]->written.size(), 1u);
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
