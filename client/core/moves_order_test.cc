// Writes of a client to one key take effect in the order in which they were started. This holds also while their slot
// moves, or is refused and served again.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/core/moves_testing.h"
#include "client/op/operation.h"
#include "client/testing/core_testing.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "gtest/gtest.h"
#include "kv/wire/cluster_map.h"

namespace farlook::client {
namespace {

// Replies are late, and some requests are lost on their way.
TEST_F(MovesTest, WritesOfAKeyStayInTheirOrder) {
  for (const int64_t ms : {6, 30, 120, 121, 122, 150}) {
    Connect();
    const size_t giver = OwnerOf(key_), taker = giver == kGiver ? kTaker : kGiver;
    std::string other = "other";
    while (OwnerOf(other) != giver || SlotOf(other) == SlotOf(key_)) other += "!";
    const kv::SlotSet slots = SlotsOf({key_});
    const auto give = [&] {
      map_.groups[giver].slots &= ~slots;
      ++map_.groups[giver].epoch;
      Enter(giver);
    };
    clock_.In(ms / 3, [&] { servers_[giver]->moved |= slots; });
    clock_.In(ms / 2, give);
    clock_.In(ms, [&] { Take(slots, taker); });
    for (const auto& network : networks_) network->hold_requests = true;
    std::deque<OwnedOperation> puts;
    std::vector<std::string> expected, written;
    for (const auto& server : servers_) server->written.clear();
    for (int i = 0; i < 200; ++i) {
      expected.push_back(absl::StrCat(key_, "=", i));
      puts.emplace_back(Kind::kPut, key_, absl::StrCat(i));
      Start(&puts.back().operation);
      // The giver always has requests.
      puts.emplace_back(Kind::kPut, other, "other");
      Start(&puts.back().operation);
      PollFor(1);
      for (const auto& network : networks_) {
        if (i % 2 == 0) network->ReleaseRequests();
      }
    }
    for (const auto& network : networks_) {
      network->hold_requests = false;
      network->ReleaseRequests();
    }
    PollFor(100);
    for (const OwnedOperation& put : puts) EXPECT_TRUE(put.status().ok()) << put.status();
    for (const size_t i : {giver, taker}) {
      for (const std::string& one : servers_[i]->written) {
        if (absl::StartsWith(one, absl::StrCat(key_, "="))) written.push_back(one);
      }
    }
    EXPECT_EQ(written, expected);
    EXPECT_GT(servers_[taker]->written.size(), 20u);
    ExpectNoViolations();
  }
}

// For a slot that the refusing group serves again, since the move was cancelled.
class ServedAgainTest : public MovesTest {
 protected:
  ServedAgainTest() { Connect(); }

  void Put(const std::string& key, const std::string& value) {
    puts_.emplace_back(Kind::kPut, key, value);
    Start(&puts_.back().operation);
  }
  void ServeAgain() { servers_[kGiver]->moved.reset(); }
  // The others are in flight, and would be executed if they were not refused to keep the order.
  void HaveTheFirstOfThreeRefused() {
    networks_[kGiver]->hold_requests = true;
    for (const char* const value : {"1", "2", "3"}) Put(key_, value);
    Refuse(SlotsOf({key_}));
    networks_[kGiver]->ReleaseRequests({0});
    PollFor(1);
    ServeAgain();
  }
  // Simulates another server of the group: it knows what was executed, but nothing that was refused.
  void Reconnect() {
    networks_[kGiver]->Break();
    networks_[kGiver]->hold_requests = false;
  }
  void ExpectWritten(const std::vector<std::string>& values, size_t group = kGiver) {
    PollUntil(puts_.back().operation);
    PollFor(10);
    std::vector<std::string> written, expected;
    for (const std::string& one : servers_[group]->written) {
      if (absl::StartsWith(one, absl::StrCat(key_, "="))) written.push_back(one);
    }
    for (const std::string& value : values) expected.push_back(absl::StrCat(key_, "=", value));
    EXPECT_EQ(written, expected);
    for (const OwnedOperation& put : puts_) EXPECT_TRUE(put.status().ok()) << put.status();
    ExpectNoViolations();
  }

  std::deque<OwnedOperation> puts_;
};

TEST_F(ServedAgainTest, WhatComesBehindARefusedWriteStaysBehindIt) {
  HaveTheFirstOfThreeRefused();
  networks_[kGiver]->hold_requests = false;
  networks_[kGiver]->ReleaseRequests();
  Put(key_, "4");
  ExpectWritten({"1", "2", "3", "4"});
  // Expect: all start again at once. Each of the three was sent twice, and none had to be refused more often.
  EXPECT_LE(Messages(), 7u);
}

TEST_F(ServedAgainTest, WhatIsUnderWayBehindItIsOnlyAskedForWhenItIsSentAgain) {
  HaveTheFirstOfThreeRefused();
  Reconnect();
  ExpectWritten({"1", "2", "3"});
}

// The former primary had begun the first two and then gave the slots away, so it refused the third. The next one knows
// of neither.
TEST_F(ServedAgainTest, WhatIsRefusedAfterALaterOneBeginsAnewBeforeIt) {
  networks_[kGiver]->hold_requests = true;
  for (const char* const value : {"1", "2", "3"}) Put(key_, value);
  Refuse(SlotsOf({key_}));
  networks_[kGiver]->ReleaseRequests({2});
  PollFor(1);
  ServeAgain();
  Reconnect();
  ExpectWritten({"1", "2", "3"});
}

// The same, but the next primary says that its group has given the slot away, so no group has it for a while.
TEST_F(ServedAgainTest, WhatIsRefusedAfterALaterOneBeginsBeforeItAtTheTaker) {
  networks_[kGiver]->hold_requests = true;
  for (const char* const value : {"1", "2", "3"}) Put(key_, value);
  const kv::SlotSet slots = SlotsOf({key_});
  Refuse(slots);
  networks_[kGiver]->ReleaseRequests({2});
  PollFor(1);
  Give(slots);
  Reconnect();
  PollFor(30);
  Take(slots);
  ExpectWritten({"1", "2", "3"}, kTaker);
}

// The window is full of writes of other slots; or of this slot, which are refused as well.
TEST_F(ServedAgainTest, WhatWaitsToBeSentStaysBehindIt) {
  std::string other = "other";
  while (OwnerOf(other) != kGiver || SlotOf(other) == SlotOf(key_)) other += "!";
  for (const std::string& between : {other, key_}) {
    SCOPED_TRACE(between);
    puts_.clear();
    servers_[kGiver]->written.clear();
    networks_[kGiver]->hold_requests = true;
    std::vector<std::string> values = {"0"};
    Put(key_, "0");
    for (uint32_t i = 1; i < servers_[kGiver]->window; ++i) {
      Put(between, absl::StrCat(i));
      if (between == key_) values.push_back(absl::StrCat(i));
    }
    Put(key_, "waits");
    values.push_back("waits");
    Refuse(SlotsOf({key_}));
    networks_[kGiver]->ReleaseRequests({0});
    networks_[kGiver]->send_room = 0;  // so that it is not sent as soon as the window has room
    PollFor(1);
    ServeAgain();
    networks_[kGiver]->send_room = SIZE_MAX;
    Reconnect();
    ExpectWritten(values);
  }
}

// The reply is lost: the refused request itself is sent again, and the server remembers it.
TEST_F(ServedAgainTest, WhatWasRefusedUnheardIsRefusedAgain) {
  networks_[kGiver]->hold_requests = true;
  for (const char* const value : {"1", "2", "3"}) Put(key_, value);
  Refuse(SlotsOf({key_}));
  networks_[kGiver]->lose_replies = true;
  networks_[kGiver]->ReleaseRequests({0});
  networks_[kGiver]->lose_replies = false;
  ServeAgain();
  Reconnect();
  ExpectWritten({"1", "2", "3"});
}

}  // namespace
}  // namespace farlook::client
