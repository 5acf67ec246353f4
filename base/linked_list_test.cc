#include "base/linked_list.h"

#include <vector>

#include "gtest/gtest.h"

namespace farlook {
namespace {

struct RedTag;
struct BlueTag;

struct Bead : Linked<RedTag>, Linked<BlueTag> {
  explicit Bead(int n) : number(n) {}
  int number;
};

using Reds = LinkedQueue<Bead, RedTag>;
using Blues = LinkedQueue<Bead, BlueTag>;

template <typename Queue>
std::vector<int> NumbersOf(const Queue& queue) {
  std::vector<int> numbers;
  for (const Bead* bead = queue.front(); bead != nullptr; bead = queue.Next(bead)) numbers.push_back(bead->number);
  std::vector<int> backwards;
  for (const Bead* bead = queue.back(); bead != nullptr; bead = queue.Previous(bead)) {
    backwards.insert(backwards.begin(), bead->number);
  }
  EXPECT_EQ(numbers, backwards);
  EXPECT_EQ(numbers.size(), queue.size());
  return numbers;
}

class LinkedQueueTest : public ::testing::Test {
 protected:
  Bead one_{1}, two_{2}, three_{3};
  Reds reds_;
  Blues blues_;
};

TEST_F(LinkedQueueTest, KeepsTheOrderInWhichMembersWereAdded) {
  for (Bead* bead : {&two_, &one_, &three_}) reds_.Add(bead);
  EXPECT_EQ(NumbersOf(reds_), (std::vector<int>{2, 1, 3}));
  EXPECT_EQ(reds_.Pop(), &two_);
  EXPECT_EQ(NumbersOf(reds_), (std::vector<int>{1, 3}));
}

TEST_F(LinkedQueueTest, HasAMemberOnceHoweverOftenItIsAdded) {
  for (Bead* bead : {&one_, &two_, &one_}) reds_.Add(bead);
  EXPECT_EQ(NumbersOf(reds_), (std::vector<int>{1, 2}));
  EXPECT_TRUE(Reds::Has(one_));
  EXPECT_FALSE(Reds::Has(three_));
}

TEST_F(LinkedQueueTest, RemovesAMemberFromTheMiddleAndIgnoresOneThatIsAbsent) {
  for (Bead* bead : {&one_, &two_, &three_}) reds_.Add(bead);
  reds_.Remove(&two_);
  reds_.Remove(&two_);
  EXPECT_EQ(NumbersOf(reds_), (std::vector<int>{1, 3}));
  EXPECT_FALSE(Reds::Has(two_));
  // Expect: it can be added again, at the end.
  reds_.Add(&two_);
  EXPECT_EQ(NumbersOf(reds_), (std::vector<int>{1, 3, 2}));
}

TEST_F(LinkedQueueTest, QueuesOfDifferentTagsDoNotDisturbEachOther) {
  reds_.Add(&one_);
  blues_.Add(&one_);
  blues_.Add(&two_);
  reds_.Remove(&one_);
  EXPECT_TRUE(reds_.empty());
  EXPECT_EQ(NumbersOf(blues_), (std::vector<int>{1, 2}));
}

TEST_F(LinkedQueueTest, PopOfAnEmptyQueueIsNull) {
  EXPECT_EQ(reds_.Pop(), nullptr);
  EXPECT_EQ(reds_.front(), nullptr);
  EXPECT_EQ(reds_.back(), nullptr);
  EXPECT_EQ(reds_.size(), 0u);
}

}  // namespace
}  // namespace farlook
