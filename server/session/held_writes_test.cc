#include "server/session/held_writes.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

TEST(HeldWrites, ComeOutInOrderForEachKeyAndNotWhileItIsBusy) {
  HeldWrites held;
  held.Add(2, 7, "a");
  held.Add(3, 8, "b");
  held.Add(4, 7, "c");
  EXPECT_TRUE(held.Has(7) && held.Has(8));
  EXPECT_FALSE(held.Has(9));
  std::set<uint64_t> busy = {7, 8};
  const auto is_busy = [&busy](uint64_t hash) { return busy.contains(hash); };
  HeldWrites::Held one;
  EXPECT_FALSE(held.TakeReady(is_busy, &one));
  busy = {7};
  ASSERT_TRUE(held.TakeReady(is_busy, &one));
  EXPECT_EQ(one.number, 3u);
  EXPECT_EQ(one.message, "b");
  EXPECT_FALSE(held.TakeReady(is_busy, &one));
  busy = {};
  ASSERT_TRUE(held.TakeReady(is_busy, &one));
  EXPECT_EQ(one.number, 2u);
  // Expect: while that one is busy, the next waits for it.
  busy = {7};
  EXPECT_FALSE(held.TakeReady(is_busy, &one));
  busy = {};
  ASSERT_TRUE(held.TakeReady(is_busy, &one));
  EXPECT_EQ(one.number, 4u);
  EXPECT_TRUE(held.empty());
}

TEST(HeldWrites, WhatCouldNotBeDoneGoesBackBeforeTheOthersOfItsKey) {
  HeldWrites held;
  held.Add(2, 7, "a");
  held.Add(3, 7, "b");
  const size_t bytes = held.bytes();
  HeldWrites::Held one;
  ASSERT_TRUE(held.TakeReady([](uint64_t) { return false; }, &one));
  held.AddFirst(one);
  EXPECT_EQ(held.bytes(), bytes);
  EXPECT_EQ(held.Clear(), (std::vector<uint64_t>{2, 3}));
}

TEST(HeldWrites, ClearTellsTheNumbers) {
  HeldWrites held;
  held.Add(2, 7, "a");
  held.Add(5, 8, "b");
  EXPECT_EQ(held.Clear(), (std::vector<uint64_t>{2, 5}));
  EXPECT_TRUE(held.empty());
}

}  // namespace
}  // namespace farlook::server
