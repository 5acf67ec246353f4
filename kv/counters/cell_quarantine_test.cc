#include "kv/counters/cell_quarantine.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace farlook::kv {
namespace {

using Holder = CellQuarantine::Holder;

std::vector<uint64_t> Released(CellQuarantine& quarantine) {
  std::vector<uint64_t> cells;
  quarantine.TakeReleased(&cells);
  return cells;
}

uint64_t NextNotice(CellQuarantine& quarantine, Holder holder, std::vector<uint64_t> expected, size_t most = 100) {
  std::vector<uint64_t> hashes;
  const uint64_t number = quarantine.NextNotice(holder, most, &hashes);
  EXPECT_EQ(hashes, expected);
  return number;
}

TEST(CellQuarantineTest, WithoutHoldersACellIsFreeAtOnce) {
  CellQuarantine quarantine;
  quarantine.Retire(64, 1);
  EXPECT_EQ(Released(quarantine), (std::vector<uint64_t>{64}));
  EXPECT_EQ(quarantine.waiting(), 0u);
}

TEST(CellQuarantineTest, ACellWaitsForEveryHolderOfItsTime) {
  CellQuarantine quarantine;
  const Holder a = quarantine.Enroll(), b = quarantine.Enroll();
  quarantine.Retire(64, 11);
  const Holder later = quarantine.Enroll();
  EXPECT_EQ(NextNotice(quarantine, later, {}), 0u) << "it cannot know the cell";
  const uint64_t to_a = NextNotice(quarantine, a, {11});
  EXPECT_TRUE(quarantine.Acknowledge(a, to_a));
  EXPECT_TRUE(Released(quarantine).empty());
  const uint64_t to_b = NextNotice(quarantine, b, {11});
  EXPECT_TRUE(Released(quarantine).empty()) << "told is not acknowledged";
  EXPECT_TRUE(quarantine.Acknowledge(b, to_b));
  EXPECT_EQ(Released(quarantine), (std::vector<uint64_t>{64}));
}

TEST(CellQuarantineTest, AHolderThatIsGoneIsNotWaitedFor) {
  CellQuarantine quarantine;
  const Holder a = quarantine.Enroll(), b = quarantine.Enroll();
  quarantine.Retire(64, 11);
  EXPECT_TRUE(quarantine.Acknowledge(a, NextNotice(quarantine, a, {11})));
  quarantine.Leave(b);
  quarantine.Leave(b);
  EXPECT_EQ(Released(quarantine), (std::vector<uint64_t>{64}));
  quarantine.Retire(128, 12);
  quarantine.Leave(a);
  EXPECT_EQ(Released(quarantine), (std::vector<uint64_t>{128}));
}

TEST(CellQuarantineTest, OneNoticeIsOutAtATimeAndTheNextBearsWhatCameMeanwhile) {
  CellQuarantine quarantine;
  const Holder a = quarantine.Enroll();
  quarantine.Retire(64, 11);
  const uint64_t first = NextNotice(quarantine, a, {11});
  quarantine.Retire(128, 12);
  quarantine.Retire(192, 13);
  quarantine.Retire(256, 14);
  EXPECT_EQ(NextNotice(quarantine, a, {}), 0u);
  EXPECT_TRUE(quarantine.Acknowledge(a, first));
  const uint64_t second = NextNotice(quarantine, a, {12, 13}, /*most=*/2);
  EXPECT_TRUE(quarantine.Acknowledge(a, second));
  const uint64_t third = NextNotice(quarantine, a, {14}, /*most=*/2);
  EXPECT_TRUE(quarantine.Acknowledge(a, third));
  EXPECT_EQ(Released(quarantine), (std::vector<uint64_t>{64, 128, 192, 256}));
}

TEST(CellQuarantineTest, NonsenseIsNotAnAcknowledgement) {
  CellQuarantine quarantine;
  const Holder a = quarantine.Enroll();
  EXPECT_FALSE(quarantine.Acknowledge(a, 0)) << "it was told nothing";
  quarantine.Retire(64, 11);
  EXPECT_FALSE(quarantine.Acknowledge(a, 1)) << "it was not told yet";
  const uint64_t number = NextNotice(quarantine, a, {11});
  EXPECT_FALSE(quarantine.Acknowledge(a, number + 1));
  EXPECT_FALSE(quarantine.Acknowledge(a + 1, number));
  EXPECT_TRUE(Released(quarantine).empty());
  EXPECT_TRUE(quarantine.Acknowledge(a, number));
  EXPECT_FALSE(quarantine.Acknowledge(a, number)) << "twice";
}

// Compares with a direct model of the rule: the holders of that time that have neither acknowledged nor left.
TEST(CellQuarantineTest, RandomHistoriesFollowTheRule) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    CellQuarantine quarantine;
    std::map<uint64_t, std::set<Holder>> waits_for;  // by cell
    struct Notice {
      uint64_t number = 0;
      std::vector<uint64_t> hashes;
    };
    std::map<Holder, Notice> holders;
    std::set<uint64_t> free;
    uint64_t next_cell = 64;
    for (int step = 0; step < 400; ++step) {
      auto chosen = holders.begin();
      if (!holders.empty()) std::advance(chosen, random() % holders.size());
      switch (random() % 6) {
        case 0:
          if (holders.size() < 8) holders[quarantine.Enroll()];
          break;
        case 1:
        case 2: {
          const uint64_t cell = next_cell += 64;
          for (const auto& [holder, notice] : holders) waits_for[cell].insert(holder);
          if (waits_for[cell].empty()) free.insert(cell);
          quarantine.Retire(cell, /*key_hash=*/cell);  // so that notices name cells
          break;
        }
        case 3:
          if (holders.empty() || chosen->second.number != 0) break;
          chosen->second.number = quarantine.NextNotice(chosen->first, 1 + random() % 4, &chosen->second.hashes);
          break;
        case 4:
          if (holders.empty() || chosen->second.number == 0) break;
          EXPECT_TRUE(quarantine.Acknowledge(chosen->first, chosen->second.number));
          for (const uint64_t cell : chosen->second.hashes) {
            EXPECT_EQ(waits_for[cell].erase(chosen->first), 1u);
            if (waits_for[cell].empty()) free.insert(cell);
          }
          chosen->second = Notice();
          break;
        case 5:
          if (holders.empty() || random() % 4 != 0) break;
          for (auto& [cell, waited] : waits_for) {
            if (waited.erase(chosen->first) > 0 && waited.empty()) free.insert(cell);
          }
          quarantine.Leave(chosen->first);
          holders.erase(chosen);
          break;
      }
      for (const uint64_t cell : Released(quarantine)) {
        ASSERT_EQ(free.erase(cell), 1u) << "cell " << cell << " is free too early, or twice";
      }
      ASSERT_TRUE(free.empty()) << "a cell is not free though nobody is waited for";
    }
  }
}

}  // namespace
}  // namespace farlook::kv
