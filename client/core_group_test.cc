// A client of a group's primary believes what it READ only while the epoch words say that there is no other one.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/core_testing.h"
#include "kv/epoch_word.h"
#include "kv/region.h"
#include "kv/words.h"

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
  // The group has gone on to this epoch, and the primary is the same.
  void EnterEpoch(uint64_t epoch) {
    server_->group_epoch = epoch;
    server_->table().ShowEpoch(EpochWord::Open(epoch));
  }
  // Of "long", which no reply has room for; it is asked for as the primary is SHUT.
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

// An item is over when all members know, and not when the clock has come so far.
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

// Of a request that is sent again the next primary knows that the key was touched: neither with which value nor where
// that lay.
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

// The READ of the word is the last that completes.
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

// What it has READ says nothing any more, whether it was found or absent: it connects anew, and reads again.
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

// A put that waits finds out too: nobody else would tell it.
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

// The primary proposes another configuration: it knows what it may say.
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

// No reply has room for it: the answer says which version it has, and that version may be READ.
TEST_F(CoreGroupTest, WhatItAskedForAndIsTooLongForAReplyItReads) {
  const std::string value = HaveItAskForALongValue();
  EXPECT_EQ(Get("long"), value);
  EXPECT_EQ(core_->stats().server_gets, 1u);
}

// It may be another value by then: of that the server is asked again.
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

// In the midst of a lease it believes without another look; the lease's last hundredth is the clocks'.
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

// On this host the word is looked at with each get.
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
