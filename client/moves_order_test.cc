// Writes of a client to one key take effect in the order in which they were started, also where their slot moves, or is
// refused and served again.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/core_testing.h"
#include "client/fake_network.h"
#include "client/mini_server.h"
#include "client/moves_testing.h"
#include "client/operation.h"
#include "gtest/gtest.h"
#include "kv/cluster_map.h"

namespace farlook::client {
namespace {

// Answers are late, and some requests are lost on their way.
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
      // The giver is never without requests.
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

// Of a slot that is served again by the group that refused it, as the move was called off.
class ServedAgainTest : public MovesTest {
 protected:
  ServedAgainTest() { Connect(); }

  void Put(const std::string& key, const std::string& value) {
    puts_.emplace_back(Kind::kPut, key, value);
    Start(&puts_.back().operation);
  }
  void ServeAgain() { servers_[kGiver]->moved.reset(); }
  // The others are on their way, and would be done if they were not refused for its sake.
  void HaveTheFirstOfThreeRefused() {
    networks_[kGiver]->hold_requests = true;
    for (const char* const value : {"1", "2", "3"}) Put(key_, value);
    Refuse(SlotsOf({key_}));
    networks_[kGiver]->ReleaseRequests({0});
    PollFor(1);
    ServeAgain();
  }
  // Another server of the group, so to say: it knows what was done, and nothing of what was refused.
  void Reconnect() {
    networks_[kGiver]->Break();
    networks_[kGiver]->hold_requests = false;
  }
  void ExpectWritten(const std::vector<std::string>& values) {
    PollUntil(puts_.back().operation);
    PollFor(10);
    std::vector<std::string> written, expected;
    for (const std::string& one : servers_[kGiver]->written) {
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
  // Expect: all begin anew at once. Each of the three was sent twice, and none had to be refused more often.
  EXPECT_LE(Messages(), 7u);
}

TEST_F(ServedAgainTest, WhatIsUnderWayBehindItIsOnlyAskedForWhenItIsSentAgain) {
  HaveTheFirstOfThreeRefused();
  Reconnect();
  ExpectWritten({"1", "2", "3"});
}

// The former primary had begun the first two, and then gave the slots away: so it refused the third. The next one knows
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

TEST_F(ServedAgainTest, WhatIsRefusedLateWaitsBeforeWritesThatWereSentAfterIt) {
  const auto nobody = cores_[0]->MakeNobody();
  std::deque<OwnedOperation> all;
  std::vector<std::string> order;
  const auto hold = [&](Kind kind, const std::string& key, const char* name, uint64_t number, bool only_asked) {
    Operation& operation = all.emplace_back(kind, key, name).operation;
    operation.number = number;
    operation.only_asked = only_asked;
    operation.deadline_ns = INT64_MAX;
    nobody->Resume(&operation);
  };
  hold(Kind::kGet, key_, "unsent", Operation::kNotSent, false);
  hold(Kind::kGet, key_, "get 99", 99, false);
  hold(Kind::kPut, "other", "other 90", 90, false);
  hold(Kind::kPut, key_, "37", 37, false);
  hold(Kind::kPut, key_, "40", 40, false);
  hold(Kind::kPut, key_, "38", 38, true);
  hold(Kind::kPut, key_, "36", 36, true);
  hold(Kind::kPut, key_, "41", 41, true);
  nobody->TakeHeld([](const Operation&) { return true; },
                   [&order](Operation* operation) { order.emplace_back(operation->value); });
  EXPECT_EQ(order, (std::vector<std::string>{"unsent", "get 99", "other 90", "36", "37", "38", "40", "41"}));
}

// The window is full of what other slots' writes have under way; or of this slot's, behind which it is refused as well.
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

// The answer is lost: what was refused is sent again itself, and the server remembers.
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
