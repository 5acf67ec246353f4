// A client of a group's primary believes what it READ only while the epoch words show that there is no other primary.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/testing/core_testing.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/region.h"
#include "kv/layout/words.h"

namespace farlook::client {
namespace {

using absl::StatusCode;
using kv::EpochWord;

constexpr uint64_t kEpoch = 5;
constexpr int64_t kLeaseMs = 150;

class CoreGroupTest : public CoreTest {
 protected:
  CoreGroupTest() {
    server_->group_epoch = kEpoch;
    server_->table().ShowEpoch(EpochWord::Open(kEpoch));
    server_->Put("key", "value");
    network_.capabilities.local = false;
  }
  // Puts the group into another epoch with the same primary.
  void EnterEpoch(uint64_t epoch) {
    server_->group_epoch = epoch;
    server_->table().ShowEpoch(EpochWord::Open(epoch));
  }
  // Gets "long", whose value is too long for a reply, by message: the primary is SHUT.
  std::string HaveItAskForALongValue() {
    const std::string value(2 * kv::kMaxReplyPayloadBytes, 'v');
    server_->Put("long", value);
    Connect();
    server_->table().ShowEpoch(EpochWord::Shut(kEpoch));
    clock_.AdvanceMs(2 * kLeaseMs);
    return value;
  }
  bool Hears(kv::RequestType type) {
    for (const std::string& message : network_.sent) {
      const auto request = kv::Request::Decode(message);
      if (request.ok() && request->type == type) return true;
    }
    return false;
  }
};

TEST_F(CoreGroupTest, ReadsWhileTheWordIsOpen) {
  Connect();
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(Do(Kind::kGet, "other")->code(), StatusCode::kNotFound);
  EXPECT_FALSE(Hears(kv::RequestType::kGet));
  EXPECT_EQ(network_.connects, 1u);
}

// An item has expired when all members know it, not when the clock has reached its expiry.
TEST_F(CoreGroupTest, WhetherAnItemIsOverThePrimarySays) {
  kv::Table& table = server_->table();
  const auto put = [&table](absl::string_view key, uint64_t expiry_ms) {
    kv::PutParams params;
    params.expiry_ms = expiry_ms;
    ASSERT_EQ(table.Put(table.HashOf(key), key, "value", params, 0).code, kv::Code::kOk);
  };
  put("alive", 1'000'000'000);
  put("over", 1);
  Connect();
  EXPECT_EQ(Get("alive"), "value");
  EXPECT_FALSE(Hears(kv::RequestType::kGet));
  EXPECT_EQ(Get("over"), "value") << "this server says so";
  EXPECT_TRUE(Hears(kv::RequestType::kGet));
}

// For a request that is sent again, the next primary knows that the key was touched, but neither the value nor its
// location.
TEST_F(CoreGroupTest, WhatTheFormerPrimaryTouchedIsRead) {
  server_->took_over = true;
  Connect();
  const auto touch = [this](absl::string_view key) {
    auto owned = std::make_unique<OwnedOperation>(Kind::kGetAndTouch, key);
    owned->operation.ttl_ms = 100'000;
    core_->Start(&owned->operation);
    PollFor(options_.timeout_ms, owned->operation);
    Poll();
    return owned;
  };
  const auto found = touch("key");
  EXPECT_EQ(found->status(), absl::OkStatus());
  EXPECT_EQ(found->result, "value");
  server_->Put("empty", "");
  const auto empty = touch("empty");
  EXPECT_EQ(empty->status(), absl::OkStatus());
  EXPECT_EQ(empty->result, "");
}

// The READ of the word completes last.
TEST_F(CoreGroupTest, WhatIsFoundAndWhatIsAbsentWaitForARound) {
  Connect();
  clock_.AdvanceMs(2 * kLeaseMs);
  network_.hold_reads = true;
  auto found = Start(Kind::kGet, "key");
  auto absent = Start(Kind::kGet, "other");
  bool waited = false;
  for (int i = 0; i < 20 && !(found->done() && absent->done()); ++i) {
    Poll();
    waited |= network_.held_reads() > 0 && !found->done() && !absent->done();
    network_.ReleaseReads(/*newest_first=*/true);
  }
  EXPECT_TRUE(waited);
  EXPECT_EQ(found->result, "value");
  EXPECT_EQ(absent->code(), StatusCode::kNotFound);
  EXPECT_FALSE(Hears(kv::RequestType::kGet));
}

// Whatever was READ is void, whether the key was found or absent: the client reconnects and reads again.
TEST_F(CoreGroupTest, OfALaterEpochItConnectsAnew) {
  Connect();
  EXPECT_EQ(Get("key"), "value");
  clock_.AdvanceMs(2 * kLeaseMs);
  EnterEpoch(kEpoch + 1);
  server_->Put("key", "later");
  EXPECT_EQ(Get("key"), "later");
  EXPECT_EQ(network_.connects, 2u);
  clock_.AdvanceMs(2 * kLeaseMs);
  EnterEpoch(kEpoch + 2);
  EXPECT_EQ(Do(Kind::kGet, "other")->code(), StatusCode::kNotFound);
  EXPECT_EQ(network_.connects, 3u);
}

// Also where its session is not known, as it wrote nothing: the group's table tells whether it continues.
TEST_F(CoreGroupTest, AFailoverThatLosesNothingIsNoChangeOfTheIncarnation) {
  server_->history = 7;
  Connect();
  EXPECT_EQ(Get("key"), "value");
  MiniServer next(4712), anew(4713);
  next.group_epoch = anew.group_epoch = kEpoch + 1;
  next.history = 7;
  anew.history = 8;
  for (MiniServer* const server : {&next, &anew}) {
    server->table().ShowEpoch(EpochWord::Open(kEpoch + 1));
    network_.server = server;
    network_.Break();
    const auto get = Do(Kind::kGet, "key");
    EXPECT_EQ(get->code(), StatusCode::kNotFound);
    EXPECT_EQ(core_->stats().incarnation_changes, server == &next ? 0u : 1u);
    EXPECT_EQ(get->status().message().find("incarnation") != absl::string_view::npos, server == &anew);
  }
  core_.reset();  // before the servers
}

// A put that waits must find out by the word: nothing else would show it.
TEST_F(CoreGroupTest, WhileItWaitsForAnAnswerItLooksAtTheWord) {
  Connect();
  network_.hold_requests = true;
  auto put = Start(Kind::kPut, "key", "mine");
  PollFor(kLeaseMs, put->operation);
  EXPECT_FALSE(put->done());
  EnterEpoch(kEpoch + 1);
  PollFor(kLeaseMs, put->operation);
  EXPECT_EQ(network_.connects, 2u);
  network_.hold_requests = false;
  network_.ReleaseRequests();
  PollFor(kLeaseMs, put->operation);
  EXPECT_TRUE(put->done());
  EXPECT_TRUE(put->status().ok()) << put->status();
}

// The primary proposes another configuration. It knows what it may answer.
TEST_F(CoreGroupTest, WhileThePrimaryIsShutItAsks) {
  Connect();
  server_->table().ShowEpoch(EpochWord::Shut(kEpoch));
  clock_.AdvanceMs(2 * kLeaseMs);
  EXPECT_EQ(Get("key"), "value");
  EXPECT_TRUE(Hears(kv::RequestType::kGet));
  EXPECT_EQ(network_.connects, 1u);
  server_->table().ShowEpoch(EpochWord::Open(kEpoch));
  clock_.AdvanceMs(2 * kLeaseMs);
  PollFor(10, Start(Kind::kPing, "")->operation);
  network_.sent.clear();
  EXPECT_EQ(Get("key"), "value");
  EXPECT_FALSE(Hears(kv::RequestType::kGet));
}

// The value is too long for a reply. The reply contains its version, and that version may be READ.
TEST_F(CoreGroupTest, WhatItAskedForAndIsTooLongForAReplyItReads) {
  const std::string value = HaveItAskForALongValue();
  EXPECT_EQ(Get("long"), value);
  EXPECT_EQ(core_->stats().server_gets, 1u);
}

// The value may have changed by then: the client asks the server again.
TEST_F(CoreGroupTest, AnotherVersionThanItWasToldIsNotBelieved) {
  const std::string value = HaveItAskForALongValue();
  network_.hold_reads = true;
  auto get = Start(Kind::kGet, "long");
  bool replaced = false;
  for (int i = 0; i < 50 && !get->done(); ++i) {
    Poll();
    if (core_->stats().server_gets == 1 && !std::exchange(replaced, true)) server_->Put("long", value + "2");
    network_.ReleaseReads(/*newest_first=*/false);
  }
  EXPECT_EQ(get->result, value + "2");
  EXPECT_EQ(core_->stats().server_gets, 2u);
}

// During a lease no further look is needed. The last hundredth of the lease is reserved for clock drift.
TEST_F(CoreGroupTest, ALeaseEnds) {
  Connect();
  EXPECT_EQ(Get("key"), "value");
  EnterEpoch(kEpoch + 1);
  server_->Put("key", "later");
  clock_.now_ns += kLeaseMs * 990'000 + 1'000'000;
  EXPECT_EQ(Get("key"), "later");
}

TEST_F(CoreGroupTest, StrictlyNoLeaseIsBelieved) {
  options_.fencing = Fencing::kStrict;
  Connect();
  EXPECT_EQ(Get("key"), "value");
  EnterEpoch(kEpoch + 1);
  server_->Put("key", "later");
  EXPECT_EQ(Get("key"), "later");
  EXPECT_FALSE(Hears(kv::RequestType::kGet));
}

// On the server's host each get looks at the word.
TEST_F(CoreGroupTest, OnThisHostNoLeaseIsNeeded) {
  network_.capabilities.local = true;
  Connect();
  EXPECT_EQ(Get("key"), "value");
  EnterEpoch(kEpoch + 1);
  server_->Put("key", "later");
  EXPECT_EQ(Get("key"), "later");
  EXPECT_EQ(network_.connects, 2u);
  server_->table().ShowEpoch(EpochWord::Shut(kEpoch + 1));
  network_.sent.clear();
  EXPECT_EQ(Get("key"), "later");
  EXPECT_TRUE(Hears(kv::RequestType::kGet));
}

}  // namespace
}  // namespace farlook::client
