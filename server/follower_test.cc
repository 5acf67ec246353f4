// A backup that follows a primary's worker over a connection that the test carries.
#include "server/follower.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/feed.h"
#include "server/group_stream.h"
#include "server/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;

constexpr uint64_t kEpoch = 3, kPrimary = kTestIncarnation, kMe = 77;
constexpr size_t kRegionBytes = 32 << 20;

class FollowerTest : public ::testing::Test {
 protected:
  FollowerTest() {
    stream_.OnAdvanced([this] { t_.gate().Advanced(); });
    stream_.SetMembers({kMe});
    stream_.Expect({kMe});
  }

  // A connection of the backup, and what is on its way.
  struct Wire {
    rdma::FakePeer near;  // the backup's side
    FakeCall* far = nullptr;
    std::deque<std::string> up, down;
    FakeEndpoint endpoint;
    std::unique_ptr<Follower> follower;
  };

  std::unique_ptr<Wire> Dial(uint64_t me = kMe, uint64_t epoch = kEpoch) {
    auto wire = std::make_unique<Wire>();
    Wire* const w = wire.get();
    w->endpoint.on_connect = [this, w](FakeEndpoint* endpoint, absl::string_view) {
      w->near.endpoint = endpoint;
      w->far = t_.CallSilently();
      return std::make_unique<rdma::FakeConnection>(&w->near, rdma::Capabilities());
    };
    w->follower = std::make_unique<Follower>(&w->endpoint, &backup_, me, epoch);
    EXPECT_TRUE(w->follower->Dial("fake", 1000).ok());
    w->near.on_send = [w](const std::string& message) { w->up.push_back(message); };
    w->far->peer.on_send = [w](const std::string& message) { w->down.push_back(message); };
    t_.PollAll();
    w->near.welcome = w->far->welcome;
    w->near.Connected();
    return wire;
  }

  // Carries what there is, both ways, until nothing moves.
  void Carry(Wire& wire) {
    for (bool moved = true; moved;) {
      moved = false;
      t_.PollAll();
      while (wire.follower->Poll() > 0) moved = true;
      for (std::string& message : std::exchange(wire.up, {})) {
        wire.far->peer.Send(message);
        moved = true;
      }
      t_.PollAll();
      for (std::string& message : std::exchange(wire.down, {})) {
        wire.near.Send(message);
        moved = true;
      }
    }
  }

  GroupStream stream_{kEpoch, kPrimary, 1, {}, 1 << 20};
  TestWorker t_{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_, /*figures_ms=*/0, &stream_};
  TestWorker b_{kRegionBytes};
  Backup backup_{&b_.table(), &b_.locks(), &b_.clock, ServerTime(), kEpoch, kPrimary};
};

TEST_F(FollowerTest, WhatThePrimaryWritesTheBackupHas) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  EXPECT_TRUE(wire->follower->follows());
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value()) << "the backup has not got it";
  Carry(*wire);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  EXPECT_EQ(b_.ReadKey("key"), "value");
  // Expect: what is longer than a message comes in several.
  const std::string value(100'000, 'x');
  EXPECT_FALSE(t_.PutPulled(call, 2, "long", value).has_value());
  for (uint64_t i = 3; i < 10; ++i) t_.Ask(call, MakePut(i, absl::StrCat("key", i), std::string(2000, 'v')));
  Carry(*wire);
  EXPECT_EQ(b_.ReadKey("long"), value);
  EXPECT_EQ(b_.ReadKey("key9"), std::string(2000, 'v'));
  EXPECT_EQ(stream_.committed(), stream_.last());
  EXPECT_EQ(backup_.applied(), stream_.last());
}

TEST_F(FollowerTest, ABrokenConnectionIsGoneOnWith) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  for (uint64_t i = 1; i < 10; ++i) {
    t_.Ask(call, MakePut(i, "key", absl::StrCat(i)));
    if (i % 3 == 0) {
      // What is under way is lost, or was torn.
      if (i == 6) {
        wire->down.front()[20] ^= 1;
        wire->near.Send(wire->down.front());
        wire->follower->Poll();
        EXPECT_TRUE(absl::IsInvalidArgument(wire->follower->status())) << wire->follower->status();
      }
      wire->far->peer.Break();
      wire->near.Break();
      wire->follower->Poll();
      EXPECT_TRUE(wire->follower->over());
      EXPECT_FALSE(wire->follower->status().ok());
      t_.PollAll();
      wire = Dial();
    }
    Carry(*wire);
    EXPECT_EQ(b_.ReadKey("key"), absl::StrCat(i));
    EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
  }
  EXPECT_EQ(t_.table().stats().puts, b_.table().stats().puts);
}

TEST_F(FollowerTest, StrangersAndOtherEpochsAreRefused) {
  auto stranger = Dial(kMe + 1);
  Carry(*stranger);
  EXPECT_TRUE(absl::IsPermissionDenied(stranger->follower->status())) << stranger->follower->status();
  auto old = Dial(kMe, kEpoch - 1);
  Carry(*old);
  EXPECT_TRUE(absl::IsFailedPrecondition(old->follower->status())) << old->follower->status();
  // Expect: who follows no group is a client that did not say hello.
  TestWorker alone(kRegionBytes);
  FakeCall* call = alone.CallSilently();
  alone.PollAll();
  call->peer.Send(kv::Follow{.incarnation = kMe, .epoch = kEpoch}.Encode());
  alone.PollAll();
  EXPECT_TRUE(call->peer.disconnecting);
}

TEST_F(FollowerTest, WhoAcceptsWhatWasNotSentIsDropped) {
  FakeCall* call = t_.Connect();
  for (const std::string& nonsense : {std::string(8, '\1'), std::string(7, '\0'), std::string(9, '\0')}) {
    auto wire = Dial();
    Carry(*wire);
    ASSERT_TRUE(wire->follower->follows());
    wire->far->peer.Send(nonsense);
    t_.PollAll();
    EXPECT_TRUE(wire->far->peer.disconnecting);
  }
  EXPECT_FALSE(t_.Ask(call, MakePut(1, "key", "value")).has_value());
  auto wire = Dial();
  Carry(*wire);
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kOk);
}

TEST_F(FollowerTest, ASlowBackupMakesNothingPileUp) {
  FakeCall* call = t_.Connect();
  auto wire = Dial();
  Carry(*wire);
  wire->far->peer.send_room = 0;
  for (uint64_t i = 1; i < 10; ++i) t_.Ask(call, MakePut(i, absl::StrCat("key", i), std::string(3000, 'v')));
  EXPECT_LE(t_.worker().stats().kept_bytes.value(), 2 * kv::kMaxMessageBytes);
  wire->far->peer.send_room = SIZE_MAX;
  for (int i = 0; i < 100; ++i) {
    t_.clock.now_ns += 1'000'000;
    Carry(*wire);
  }
  EXPECT_EQ(b_.ReadKey("key9"), std::string(3000, 'v'));
  EXPECT_EQ(stream_.committed(), stream_.last());
}

}  // namespace
}  // namespace farlook::server
