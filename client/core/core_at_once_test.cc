// Gets of blocking calls over a connection whose READs may complete at once: their results and costs, and that all
// other operations end in the usual way.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "client/testing/core_testing.h"
#include "kv/layout/item.h"
#include "kv/layout/words.h"

namespace farlook::client {
namespace {

class AtOnceTest : public CoreTest {
 protected:
  AtOnceTest() {
    network_.capabilities.reads_at_once = true;
    options_.mirror_bytes = 64 << 20;
    for (int i = 0; i < 100; ++i) server_->Put(std::to_string(i), Pattern(static_cast<size_t>(i), i));
  }
  // Connects, and warms the mirror so that all locations are known.
  void ConnectWarm() {
    Connect();
    ASSERT_TRUE(Do(Kind::kWarm, "")->status().ok());
  }
  // Starts an operation like the blocking calls.
  std::unique_ptr<OwnedOperation> Begin(Kind kind, absl::string_view key) {
    auto owned = std::make_unique<OwnedOperation>(kind, key);
    owned->operation.blocking = true;
    owned->operation.status = absl::AbortedError("of a call before");
    const bool ended = core_->StartUntimed(&owned->operation, kind);
    EXPECT_TRUE(owned->done() || !ended);
    return owned;
  }
  // Ends an operation that did not end at once, like any other.
  void Finish(OwnedOperation* owned) {
    ASSERT_FALSE(owned->done());
    core_->SetDeadline(&owned->operation);
    PollFor(options_.timeout_ms + 1, owned->operation);
    ASSERT_TRUE(owned->done());
    EXPECT_EQ(core_->in_flight(), 0);
    ExpectNoViolations();
  }
};

TEST_F(AtOnceTest, EndsWithOneReadAndWithoutTheClock) {
  ConnectWarm();
  const ClientStats before = core_->stats();
  const int64_t readings = clock_.readings;
  const uint64_t reads = network_.reads;
  auto get = Begin(Kind::kGet, "17");
  ASSERT_TRUE(get->done());
  EXPECT_TRUE(get->status().ok()) << get->status();
  EXPECT_EQ(get->result, Pattern(17, 17));
  EXPECT_EQ(get->operation.value_bytes, 17);
  EXPECT_GT(get->operation.version, 0);
  EXPECT_TRUE(Begin(Kind::kExists, "18")->status().ok());
  EXPECT_EQ(clock_.readings, readings);
  EXPECT_EQ(network_.reads, reads + 2);
  EXPECT_EQ(core_->in_flight(), 0);
  EXPECT_EQ(core_->stats().gets - before.gets, 2);
  EXPECT_EQ(core_->stats().hits - before.hits, 2);
  EXPECT_EQ(core_->stats().cached_hits - before.cached_hits, 2);
  EXPECT_EQ(core_->stats().item_reads - before.item_reads, 2);
  EXPECT_EQ(core_->stats().bucket_reads, before.bucket_reads);
}

TEST_F(AtOnceTest, LooksForNoLongerThanACallMaySpin) {
  for (const auto& [spin_us, looks] :
       {std::pair<int64_t, uint32_t>{0, 20}, {1, 20}, {7, 140}, {50, 1000}, {1 << 30, 1000}}) {
    options_.spin_us = spin_us;
    ConnectWarm();
    EXPECT_TRUE(Begin(Kind::kGet, "17")->done());
    EXPECT_EQ(network_.looks(), looks) << spin_us;
  }
}

TEST_F(AtOnceTest, OneIn64IsTimed) {
  ConnectWarm();
  for (int i = 0; i < 128; ++i) EXPECT_TRUE(Begin(Kind::kGet, "17")->done());
  const auto& counts = core_->stats().get_times.counts;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), 128);
}

TEST_F(AtOnceTest, WhatIsNotKnownToLieAnywhereIsLookedUp) {
  Connect();
  auto get = Begin(Kind::kGet, "17");
  Finish(get.get());
  EXPECT_EQ(get->result, Pattern(17, 17));
  EXPECT_TRUE(Begin(Kind::kGet, "17")->done()) << "it is known now";
  auto absent = Begin(Kind::kGet, "no such key");
  Finish(absent.get());
  EXPECT_EQ(absent->code(), absl::StatusCode::kNotFound);
  auto wrong = Begin(Kind::kGet, "");
  EXPECT_EQ(wrong->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(core_->in_flight(), 0);
}

TEST_F(AtOnceTest, WhatMovedIsFound) {
  ConnectWarm();
  server_->Put("17", Pattern(300, 5));  // of another size class
  auto get = Begin(Kind::kGet, "17");
  if (!get->done()) Finish(get.get());
  EXPECT_TRUE(get->result == Pattern(300, 5));
}

TEST_F(AtOnceTest, WhatIsTornIsReadAgain) {
  ConnectWarm();
  kv::ItemView item;
  const kv::WriteResult at = server_->table().Get(server_->table().HashOf("17"), "17", &item);
  char* const word = server_->region().data() + at.slot.offset() + kv::kItemHeaderBytes;
  const uint64_t right = kv::LoadWord(word);
  kv::StoreWord(word, right ^ 1);
  auto get = Begin(Kind::kGet, "17");
  EXPECT_FALSE(get->done());
  kv::StoreWord(word, right);
  Finish(get.get());
  EXPECT_EQ(get->result, Pattern(17, 17));
}

TEST_F(AtOnceTest, WhatExpiresAndWhatDoesNotFitIsJudgedOfTheSameRead) {
  ConnectWarm();
  PutFor(/*ttl_ms=*/50, "17", "short-lived");
  const uint64_t reads = network_.reads;
  auto get = Begin(Kind::kGet, "17");
  EXPECT_TRUE(get->status().ok()) << get->status();
  EXPECT_EQ(get->result, "short-lived");
  EXPECT_EQ(network_.reads, reads + 1);
  OwnedOperation into(Kind::kGet, "90");
  char buffer[16];
  into.operation.blocking = true;
  into.operation.to = {nullptr, absl::MakeSpan(buffer)};
  core_->StartUntimed(&into.operation, Kind::kGet);
  EXPECT_EQ(into.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(into.operation.value_bytes, 90);
  EXPECT_EQ(network_.reads, reads + 2);
  EXPECT_EQ(core_->in_flight(), 0);
}

TEST_F(AtOnceTest, WhatTakesLongerIsWaitedFor) {
  ConnectWarm();
  network_.hold_reads = true;
  auto get = Begin(Kind::kGet, "17");
  auto other = Begin(Kind::kGet, "18");  // posted in the usual way, since one is in flight
  EXPECT_EQ(network_.held_reads(), 2);
  EXPECT_EQ(core_->in_flight(), 2);
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(get->result, Pattern(17, 17));
  EXPECT_EQ(other->result, Pattern(18, 18));
  // Expect: a READ that never completes ends by its deadline, and its memory is used again only after it completed.
  auto late = Begin(Kind::kGet, "19");
  Finish(late.get());
  EXPECT_EQ(late->code(), absl::StatusCode::kDeadlineExceeded);
  network_.hold_reads = false;
  EXPECT_EQ(network_.held_reads(), 1);
  auto beside = Begin(Kind::kGet, "20");
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(beside->result, Pattern(20, 20));
  EXPECT_TRUE(Begin(Kind::kGet, "21")->done());
}

TEST_F(AtOnceTest, WhereTheQueueIsFullItWaits) {
  ConnectWarm();
  network_.read_room = 0;
  auto get = Begin(Kind::kGet, "17");
  EXPECT_FALSE(get->done());
  network_.read_room = SIZE_MAX;
  Finish(get.get());
  EXPECT_EQ(get->result, Pattern(17, 17));
}

TEST_F(AtOnceTest, AnAnswerThatWaitsIsTakenFirst) {
  ConnectWarm();
  auto put = Start(Kind::kPut, "new", "value");  // its reply waits to be polled
  auto get = Begin(Kind::kGet, "17");
  EXPECT_FALSE(get->done());
  Poll();
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(get->result, Pattern(17, 17));
}

TEST_F(AtOnceTest, AConnectionThatBreaksIsMadeAnew) {
  ConnectWarm();
  network_.Break();
  auto get = Begin(Kind::kGet, "17");
  Finish(get.get());
  EXPECT_EQ(get->result, Pattern(17, 17));
  EXPECT_TRUE(Begin(Kind::kGet, "17")->done());
  EXPECT_EQ(core_->stats().reconnects, 1);
}

// A client that only reads, and always finds its keys, still notices the end of the connection.
TEST_F(AtOnceTest, AnEndIsNoticedBetweenGets) {
  ConnectWarm();
  EXPECT_TRUE(Begin(Kind::kGet, "17")->done());
  network_.server_alive = false;
  network_.Break();
  network_.accepting = false;
  for (int i = 0; i < 100 && core_->ready(); ++i) core_->ProgressNowAndThen();
  EXPECT_FALSE(core_->ready());
}

}  // namespace
}  // namespace farlook::client
