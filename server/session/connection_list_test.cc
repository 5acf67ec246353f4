#include "server/session/connection_list.h"

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
#include "server/session/connection_quota.h"

namespace farlook::server {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr size_t kPage = 4056;

TEST(ConnectionList, TellsWhoIsThereAndWhatItDid) {
  ConnectionQuota quota(10);
  ConnectionList list(&quota);
  ConnectionList::Entry silent(&list, "10.0.0.9:1", 0, kSecondNs);
  ConnectionList::Entry known(&list, "pid 7\nuid\t0", 3, 2 * kSecondNs);
  known.Welcome("app", "write");
  known.requests.Add(5);
  known.kept_bytes.Set(100);
  known.gets_per_s.Set(7);
  known.get_p99_ns.Set(640);
  uint64_t left = 9;
  EXPECT_EQ(list.List(0, kPage, 4 * kSecondNs, &left),
            "1\t10.0.0.9:1\t-\t-\t0\tunproven\t3\t0\t0\t0\t0\n"
            "2\tpid 7?uid?0\tapp\twrite\t3\twelcome\t2\t5\t100\t7\t640\n");
  EXPECT_EQ(left, 0u);
  known.Set(ConnectionList::State::kPaused);
  EXPECT_NE(list.List(1, kPage, 4 * kSecondNs, &left).find("\tpaused\t"), std::string::npos);
}

TEST(ConnectionList, AThousandComeInPagesWithoutOneTwice) {
  ConnectionQuota quota(10);
  ConnectionList list(&quota);
  std::deque<ConnectionList::Entry> entries;
  for (int i = 0; i < 1000; ++i) entries.emplace_back(&list, absl::StrCat("10.0.0.9:", i), 0, 0);
  std::set<uint64_t> seen;
  uint64_t after = 0, left = 1;
  int pages = 0;
  while (left > 0) {
    ASSERT_LT(++pages, 100);
    const std::string page = list.List(after, kPage, 0, &left);
    EXPECT_LE(page.size(), kPage);
    const size_t before = seen.size();
    for (const auto line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
      ASSERT_TRUE(absl::SimpleAtoi(line.substr(0, line.find('\t')), &after));
      EXPECT_TRUE(seen.insert(after).second);
    }
    ASSERT_GT(seen.size(), before);
    EXPECT_EQ(left, 1000 - seen.size());
    // Expect: a connection that ends between two pages shifts none of the others.
    if (pages == 1) entries.pop_front();
    if (pages == 1) left = left > 0 ? left : 1;
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(ConnectionList, WhoIsGoneIsNotListedAndNotKickedAgain) {
  ConnectionQuota quota(10);
  ConnectionList list(&quota);
  auto entry = std::make_unique<ConnectionList::Entry>(&list, "a", 0, 0);
  EXPECT_EQ(list.KickOut(2), ConnectionList::Kick::kAbsent);
  EXPECT_EQ(list.kicks(), 0u);
  EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kEnding);
  EXPECT_EQ(list.kicks(), 1u);
  EXPECT_TRUE(entry->kicked());
  entry.reset();
  EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kGone);
  EXPECT_EQ(list.kicks(), 1u);
  uint64_t left;
  EXPECT_EQ(list.List(0, kPage, 0, &left), "");
  // Expect: an id is used once.
  ConnectionList::Entry next(&list, "a", 0, 0);
  EXPECT_EQ(list.List(0, kPage, 0, &left).substr(0, 2), "2\t");
}

TEST(ConnectionList, TheLastThatWereKickedAreRemembered) {
  ConnectionQuota quota(10);
  ConnectionList list(&quota);
  { const ConnectionList::Entry by_itself(&list, "a", 0, 0); }
  EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kAbsent) << "it was not kicked";
  const uint64_t most = ConnectionList::kMostRemembered;
  for (uint64_t id = 2; id <= most + 2; ++id) {
    const ConnectionList::Entry entry(&list, "a", 0, 0);
    ASSERT_EQ(list.KickOut(id), ConnectionList::Kick::kEnding);
  }
  EXPECT_EQ(list.KickOut(2), ConnectionList::Kick::kAbsent);
  EXPECT_EQ(list.KickOut(3), ConnectionList::Kick::kGone);
  EXPECT_EQ(list.KickOut(most + 2), ConnectionList::Kick::kGone);
  EXPECT_EQ(list.KickOut(most + 3), ConnectionList::Kick::kAbsent);
}

TEST(ConnectionList, WhoStaysWithinAnAtomicIsListedAndItsPlaceIsGivenAwayWhenItIsKicked) {
  ConnectionQuota quota(2);
  ConnectionList list(&quota);
  auto first = std::make_unique<ConnectionList::Entry>(&list, "pid 7 uid 0", 0, 0);
  auto second = std::make_unique<ConnectionList::Entry>(&list, "pid 8 uid 0", 0, 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(quota.Take(/*returns=*/false));
  first->Set(ConnectionList::State::kClosing);
  first->StayWithinAtomic();
  uint64_t left;
  EXPECT_EQ(list.List(0, kPage, 0, &left).substr(0, 26), "1\tpid 7 uid 0\t-\t-\t0\tatomic");
  EXPECT_FALSE(quota.Take(/*returns=*/false));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kVacated);
    EXPECT_EQ(quota.taken(), 1) << "once, however often it is kicked";
  }
  EXPECT_EQ(list.kicks(), 0u) << "no worker has to do anything";
  EXPECT_NE(list.List(0, kPage, 0, &left).find("\tkicked\t"), std::string::npos);
  // Expect: the place of one that was kicked while connected is given to others at once.
  EXPECT_EQ(list.KickOut(2), ConnectionList::Kick::kEnding);
  EXPECT_EQ(quota.taken(), 1);
  second->StayWithinAtomic();
  EXPECT_EQ(quota.taken(), 0);
  EXPECT_FALSE(first->Leave());
  EXPECT_FALSE(second->Leave());
  EXPECT_EQ(list.List(0, kPage, 0, &left), "");
  EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kGone);
}

TEST(ConnectionList, AsManyAsThereArePlacesMayBeKickedWithinAtomics) {
  ConnectionQuota quota(1);
  ConnectionList list(&quota);
  ConnectionList::Entry first(&list, "a", 0, 0);
  ConnectionList::Entry second(&list, "b", 0, 0);
  ConnectionList::Entry third(&list, "c", 0, 0);
  for (ConnectionList::Entry* entry : {&first, &second}) {
    ASSERT_TRUE(quota.Take(/*returns=*/false));
    entry->StayWithinAtomic();
    if (entry == &second) break;
    EXPECT_EQ(list.KickOut(1), ConnectionList::Kick::kVacated);
  }
  EXPECT_EQ(list.KickOut(2), ConnectionList::Kick::kRefused);
  EXPECT_EQ(quota.taken(), 1);
  uint64_t left;
  EXPECT_NE(list.List(1, kPage, 0, &left).find("\tatomic\t"), std::string::npos);
  // Expect: nor is the place given away if it was kicked before.
  EXPECT_EQ(list.KickOut(3), ConnectionList::Kick::kEnding);
  third.StayWithinAtomic();
  EXPECT_TRUE(third.Leave()) << "it has its place";
  EXPECT_FALSE(first.Leave());
  quota.Gone();
  EXPECT_EQ(list.KickOut(2), ConnectionList::Kick::kVacated);
}

}  // namespace
}  // namespace farlook::server
