#include "server/roster.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "server/places.h"

namespace farlook::server {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr size_t kPage = 4056;

TEST(Roster, TellsWhoIsThereAndWhatItDid) {
  Places places(10);
  Roster roster(&places);
  Roster::Entry silent(&roster, "10.0.0.9:1", 0, kSecondNs);
  Roster::Entry known(&roster, "pid 7\nuid\t0", 3, 2 * kSecondNs);
  known.Welcome("app", "write");
  known.requests.Add(5);
  known.kept_bytes.Set(100);
  known.gets_per_s.Set(7);
  known.get_p99_ns.Set(640);
  uint64_t left = 9;
  EXPECT_EQ(roster.List(0, kPage, 4 * kSecondNs, &left),
            "1\t10.0.0.9:1\t-\t-\t0\tunproven\t3\t0\t0\t0\t0\n"
            "2\tpid 7?uid?0\tapp\twrite\t3\twelcome\t2\t5\t100\t7\t640\n");
  EXPECT_EQ(left, 0u);
  known.Set(Roster::State::kDeaf);
  EXPECT_NE(roster.List(1, kPage, 4 * kSecondNs, &left).find("\tdeaf\t"), std::string::npos);
}

TEST(Roster, AThousandComeInPagesWithoutOneTwice) {
  Places places(10);
  Roster roster(&places);
  std::deque<Roster::Entry> entries;
  for (int i = 0; i < 1000; ++i) entries.emplace_back(&roster, absl::StrCat("10.0.0.9:", i), 0, 0);
  std::set<uint64_t> seen;
  uint64_t after = 0, left = 1;
  int pages = 0;
  while (left > 0) {
    ASSERT_LT(++pages, 100);
    const std::string page = roster.List(after, kPage, 0, &left);
    EXPECT_LE(page.size(), kPage);
    const size_t before = seen.size();
    for (const auto line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
      ASSERT_TRUE(absl::SimpleAtoi(line.substr(0, line.find('\t')), &after));
      EXPECT_TRUE(seen.insert(after).second);
    }
    ASSERT_GT(seen.size(), before);
    EXPECT_EQ(left, 1000 - seen.size());
    // Expect: who goes between two pages shifts nothing.
    if (pages == 1) entries.pop_front();
    if (pages == 1) left = left > 0 ? left : 1;
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Roster, WhoIsGoneIsNotListedAndNotKickedAgain) {
  Places places(10);
  Roster roster(&places);
  auto entry = std::make_unique<Roster::Entry>(&roster, "a", 0, 0);
  EXPECT_EQ(roster.KickOut(2), Roster::Kick::kAbsent);
  EXPECT_EQ(roster.kicks(), 0u);
  EXPECT_EQ(roster.KickOut(1), Roster::Kick::kEnding);
  EXPECT_EQ(roster.kicks(), 1u);
  EXPECT_TRUE(entry->kicked());
  entry.reset();
  EXPECT_EQ(roster.KickOut(1), Roster::Kick::kGone);
  EXPECT_EQ(roster.kicks(), 1u);
  uint64_t left;
  EXPECT_EQ(roster.List(0, kPage, 0, &left), "");
  // Expect: an id is used once.
  Roster::Entry next(&roster, "a", 0, 0);
  EXPECT_EQ(roster.List(0, kPage, 0, &left).substr(0, 2), "2\t");
}

TEST(Roster, TheLastThatWereKickedAreRemembered) {
  Places places(10);
  Roster roster(&places);
  { const Roster::Entry by_itself(&roster, "a", 0, 0); }
  EXPECT_EQ(roster.KickOut(1), Roster::Kick::kAbsent) << "it was not kicked";
  const uint64_t most = Roster::kMostRemembered;
  for (uint64_t id = 2; id <= most + 2; ++id) {
    const Roster::Entry entry(&roster, "a", 0, 0);
    ASSERT_EQ(roster.KickOut(id), Roster::Kick::kEnding);
  }
  EXPECT_EQ(roster.KickOut(2), Roster::Kick::kAbsent);
  EXPECT_EQ(roster.KickOut(3), Roster::Kick::kGone);
  EXPECT_EQ(roster.KickOut(most + 2), Roster::Kick::kGone);
  EXPECT_EQ(roster.KickOut(most + 3), Roster::Kick::kAbsent);
}

TEST(Roster, WhoStaysWithinAnAtomicIsListedAndItsPlaceIsGivenAwayWhenItIsKicked) {
  Places places(2);
  Roster roster(&places);
  auto first = std::make_unique<Roster::Entry>(&roster, "pid 7 uid 0", 0, 0);
  auto second = std::make_unique<Roster::Entry>(&roster, "pid 8 uid 0", 0, 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(places.Take(/*returns=*/false));
  first->Set(Roster::State::kClosing);
  first->StayWithinAtomic();
  uint64_t left;
  EXPECT_EQ(roster.List(0, kPage, 0, &left).substr(0, 26), "1\tpid 7 uid 0\t-\t-\t0\tatomic");
  EXPECT_FALSE(places.Take(/*returns=*/false));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(roster.KickOut(1), Roster::Kick::kVacated);
    EXPECT_EQ(places.taken(), 1) << "once, however often it is kicked";
  }
  EXPECT_EQ(roster.kicks(), 0u) << "no worker has to do anything";
  EXPECT_NE(roster.List(0, kPage, 0, &left).find("\tkicked\t"), std::string::npos);
  // Expect: of one that was kicked while it was connected it is given away at once.
  EXPECT_EQ(roster.KickOut(2), Roster::Kick::kEnding);
  EXPECT_EQ(places.taken(), 1);
  second->StayWithinAtomic();
  EXPECT_EQ(places.taken(), 0);
  EXPECT_FALSE(first->Leave());
  EXPECT_FALSE(second->Leave());
  EXPECT_EQ(roster.List(0, kPage, 0, &left), "");
  EXPECT_EQ(roster.KickOut(1), Roster::Kick::kGone);
}

TEST(Roster, AsManyAsThereArePlacesMayBeKickedWithinAtomics) {
  Places places(1);
  Roster roster(&places);
  Roster::Entry first(&roster, "a", 0, 0);
  Roster::Entry second(&roster, "b", 0, 0);
  Roster::Entry third(&roster, "c", 0, 0);
  for (Roster::Entry* entry : {&first, &second}) {
    ASSERT_TRUE(places.Take(/*returns=*/false));
    entry->StayWithinAtomic();
    if (entry == &second) break;
    EXPECT_EQ(roster.KickOut(1), Roster::Kick::kVacated);
  }
  EXPECT_EQ(roster.KickOut(2), Roster::Kick::kRefused);
  EXPECT_EQ(places.taken(), 1);
  uint64_t left;
  EXPECT_NE(roster.List(1, kPage, 0, &left).find("\tatomic\t"), std::string::npos);
  // Expect: nor is it done of one that was kicked before.
  EXPECT_EQ(roster.KickOut(3), Roster::Kick::kEnding);
  third.StayWithinAtomic();
  EXPECT_TRUE(third.Leave()) << "it has its place";
  EXPECT_FALSE(first.Leave());
  places.Gone();
  EXPECT_EQ(roster.KickOut(2), Roster::Kick::kVacated);
}

}  // namespace
}  // namespace farlook::server
