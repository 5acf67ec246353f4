#include "client/op/deadlines.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::client {
namespace {

TEST(DeadlinesTest, EachIsTakenAtItsTimeAndNotBefore) {
  Deadlines deadlines;
  EXPECT_EQ(deadlines.earliest_ns(), Deadlines::kNever);
  Operation first, second;
  first.deadline_ns = 1'000;
  second.deadline_ns = 1'001;
  deadlines.Add(&second);
  deadlines.Add(&first);
  EXPECT_EQ(deadlines.earliest_ns(), 1'000);
  DeadlineList over;
  deadlines.TakeOver(999, &over);
  EXPECT_TRUE(over.empty());
  deadlines.TakeOver(1'000, &over);
  EXPECT_EQ(over.Pop(), &first);
  EXPECT_TRUE(over.empty());
  EXPECT_EQ(deadlines.earliest_ns(), 1'001);
  deadlines.TakeOver(1'001, &over);
  EXPECT_EQ(over.Pop(), &second);
  EXPECT_EQ(deadlines.earliest_ns(), Deadlines::kNever);
  // Expect: a deadline in the past expires at once.
  first.deadline_ns = 5;
  deadlines.Add(&first);
  EXPECT_EQ(deadlines.earliest_ns(), 5);
  deadlines.TakeOver(1'001, &over);
  EXPECT_EQ(over.Pop(), &first);
}

// Compares with a sorted map: any deadlines, operations that end early, and time steps of any size.
TEST(DeadlinesTest, RandomOnesAreAsInASortedMap) {
  std::mt19937_64 random(7);
  Deadlines deadlines;
  std::multimap<int64_t, Operation*> model;
  std::vector<std::unique_ptr<Operation>> operations;
  int64_t now_ns = int64_t{1} << 40;
  uint64_t moved = 0;
  for (int step = 0; step < 20'000; ++step) {
    for (uint64_t i = random() % 4; i > 0; --i) {
      operations.push_back(std::make_unique<Operation>());
      Operation* const operation = operations.back().get();
      operation->deadline_ns = now_ns + static_cast<int64_t>(random() >> (24 + random() % 40));
      deadlines.Add(operation);
      model.emplace(operation->deadline_ns, operation);
    }
    if (!model.empty() && random() % 2 == 0) {  // one ends
      auto it = model.lower_bound(now_ns + static_cast<int64_t>(random() >> (24 + random() % 40)));
      if (it == model.end()) it = model.begin();
      it->second->Linked<DeadlineTag>::Unlink();
      model.erase(it);
    }
    now_ns += static_cast<int64_t>(random() >> (30 + random() % 34));
    if (!model.empty()) {
      ASSERT_LE(deadlines.earliest_ns(), model.begin()->first);
    }
    if (deadlines.earliest_ns() > now_ns) continue;
    ++moved;
    DeadlineList over;
    deadlines.TakeOver(now_ns, &over);
    std::vector<int64_t> taken;
    while (Operation* const operation = over.Pop()) taken.push_back(operation->deadline_ns);
    std::sort(taken.begin(), taken.end());
    std::vector<int64_t> expected;
    while (!model.empty() && model.begin()->first <= now_ns) {
      expected.push_back(model.begin()->first);
      model.erase(model.begin());
    }
    ASSERT_EQ(taken, expected) << step;
    ASSERT_GT(deadlines.earliest_ns(), now_ns) << "it is worth another look only later";
  }
  EXPECT_GT(moved, 1'000u);
}

}  // namespace
}  // namespace farlook::client
