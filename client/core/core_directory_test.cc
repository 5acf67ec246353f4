// Reads of a table that changes: overtaken gets, the directory, remembered locations, corrupt memory.
#include <cstring>
#include <random>

#include "client/testing/core_testing.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"
#include "kv/read/lookup.h"

namespace farlook::client {
namespace {

TEST_F(CoreTest, AGetOvertakenByWritersAsksTheServer) {
  Connect();
  server_->Put("key", "value");
  server_->Put("large", Pattern(10'000));
  // An item that stays DEAD, as if its writer had stopped in the middle.
  for (const char* key : {"key", "large"}) {
    kv::ItemView item;
    const kv::WriteResult at = server_->table().Get(server_->table().HashOf(key), key, &item);
    char* version = server_->region().data() + at.slot.offset() + kv::kVersionOffset;
    network_.hold_requests = true;
    kv::StoreWord(version, kv::LoadWord(version) | kv::kDeadBit);
    auto get = Start(Kind::kGet, key);
    Poll();
    ASSERT_FALSE(get->done());
    ASSERT_EQ(network_.held_requests(), 1);
    EXPECT_GE(core_->stats().bucket_reads, kv::Lookup::kMaxRounds);
    kv::StoreWord(version, kv::LoadWord(version) & ~kv::kDeadBit);
    network_.hold_requests = false;
    network_.ReleaseRequests();
    Poll();
    ASSERT_TRUE(get->done());
    EXPECT_TRUE(get->status().ok());
    EXPECT_EQ(get->operation.version, item.version);
    EXPECT_TRUE(get->result == item.value);
  }
  EXPECT_EQ(core_->stats().server_gets, 2);
  ExpectNoViolations();
}

// Its last READ completes together with an event that makes the client break the connection, before the server was
// asked.
TEST_F(CoreTest, AGetThatWasOvertakenReconnectsWhenItsConnectionIsLostBeforeTheServerIsAsked) {
  server_->Put("key", "value");
  Connect();
  kv::ItemView item;
  ASSERT_EQ(server_->table().Get(server_->table().HashOf("key"), "key", &item).code, kv::Code::kOk);
  char* const version = const_cast<char*>(item.value.data()) - kv::ValueOffset(3) + kv::kVersionOffset;
  const uint64_t alive = kv::LoadWord(version);
  const auto die = [&] { kv::StoreWord(version, alive | kv::kDeadBit); };
  die();
  const uint64_t before = network_.reads;
  EXPECT_EQ(Do(Kind::kGet, "key")->status(), absl::OkStatus());
  const uint64_t rounds = network_.reads - before;

  network_.hold_reads = true;
  auto get = Start(Kind::kGet, "key");
  for (uint64_t i = 1; i < rounds; ++i) {
    network_.ReleaseReads();
    core_->Poll({});
  }
  ASSERT_EQ(network_.held_reads(), 1);
  network_.hold_reads = false;
  network_.ReleaseReads();
  network_.Inject("no reply");
  kv::StoreWord(version, alive);
  PollFor(options_.timeout_ms + 1, get->operation);
  EXPECT_EQ(get->status(), absl::OkStatus());
  EXPECT_EQ(get->result, "value");
  EXPECT_EQ(core_->stats().reconnects, 1);
}

TEST_F(CoreTest, FollowsATableThatGrows) {
  server_->Put("0", "0");
  Connect();
  EXPECT_EQ(Get("0"), "0");
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(server_->Put(std::to_string(i), std::to_string(i)).code, kv::Code::kOk);
    server_->now_ns += 100'000'000;
  }
  for (int i = 0; i < 20'000; i += 11) ASSERT_EQ(Get(std::to_string(i)), std::to_string(i));
  EXPECT_GT(core_->stats().directory_refreshes, 0);
  EXPECT_EQ(core_->stats().server_gets, 0);
  // Expect: absent keys are found absent too.
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(Do(Kind::kGet, "no" + std::to_string(i))->code(), absl::StatusCode::kNotFound);
}

TEST_F(CoreTest, ManyGetsShareARefreshOfTheDirectory) {
  Connect();
  for (int i = 0; i < 20'000; ++i) {
    server_->Put(std::to_string(i), "v");
    server_->now_ns += 100'000'000;
  }
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  for (int i = 0; i < 200; ++i) gets.push_back(Start(Kind::kGet, std::to_string(i)));
  Poll();
  for (const auto& get : gets) EXPECT_TRUE(get->status().ok()) << get->status();
  EXPECT_GE(core_->stats().directory_refreshes, 1);
  EXPECT_LE(core_->stats().directory_refreshes, 20);
}

TEST_F(CoreTest, AnAbsenceInMemoryThatIsNoBucketAnyMoreIsNotBelieved) {
  server_->Put("key", "value");
  Connect();
  ImitateBucketOf("key");
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  for (int i = 0; i < 5; ++i) gets.push_back(Start(Kind::kGet, "key"));
  Poll();
  for (const auto& get : gets) EXPECT_EQ(get->result, "value") << get->status();
  EXPECT_EQ(core_->stats().server_gets, 0);
  EXPECT_EQ(core_->stats().directory_refreshes, 1) << "they share a look at the epoch";
  // Expect: one READ for each absent key, and now and then a look at the epoch.
  const auto reads = [this](int gets_made) {
    const uint64_t before = network_.reads;
    for (int i = 0; i < gets_made; ++i) {
      EXPECT_EQ(Do(Kind::kGet, "absent" + std::to_string(i))->code(), absl::StatusCode::kNotFound);
    }
    return network_.reads - before;
  };
  EXPECT_LE(reads(10), 11);
  clock_.AdvanceMs(kv::kIndexTrustNs / 1'000'000 + 1);
  EXPECT_EQ(reads(10), 11);
}

// Gets of an absent key wait for a look at the epoch. Meanwhile the segment of another key is split, so that a get of
// it waits for the directory too. The look at the epoch proves nothing about that key.
class CoreWaitingTest : public CoreTest {
 protected:
  void SetUp() override {
    // A split that changes neither the directory's level nor the epoch: its segment serves two entries.
    for (int level = IndexState().level(); IndexState().level() == level;) PutFiller();
    for (int i = 0; key_.empty() || !(EntryOf(key_) == EntryOf(key_, 1)); ++i) {
      ASSERT_LT(i, 1000);
      key_ = "key" + std::to_string(i);
    }
    state_ = IndexState();
    Connect();
  }
  // Starts gets of "absent", which have read its bucket and wait.
  std::vector<std::unique_ptr<OwnedOperation>> StartWaiting(int count) {
    EXPECT_EQ(Do(Kind::kGet, "absent")->code(), absl::StatusCode::kNotFound);
    clock_.AdvanceMs(kv::kIndexTrustNs / 1'000'000 + 1);
    network_.hold_reads = true;
    std::vector<std::unique_ptr<OwnedOperation>> gets;
    for (int i = 0; i < count; ++i) gets.push_back(Start(Kind::kGet, "absent", "", /*timeout_ms=*/20));
    network_.ReleaseReads();
    Poll();
    EXPECT_EQ(network_.held_reads(), 1) << "of the epoch";
    return gets;
  }
  void Split() {
    SplitSegmentOf(key_);
    ASSERT_EQ(IndexState().word(), state_.word());
    ASSERT_EQ(server_->Put(key_, "value").code, kv::Code::kOk);
  }
  // The bucket is read before the epoch.
  void ExpectFound() {
    auto get = Start(Kind::kGet, key_);
    ASSERT_EQ(network_.held_reads(), 2);
    network_.ReleaseReads(/*newest_first=*/true);
    network_.hold_reads = false;
    Poll();
    network_.ReleaseReads();
    Poll();
    EXPECT_EQ(get->result, "value") << get->status();
  }

  std::string key_;
  kv::IndexState state_;
};

TEST_F(CoreWaitingTest, AGetHasTheFlightOfOneThatWaitedAndWasCancelled) {
  auto absent = StartWaiting(1);
  PollFor(21, absent[0]->operation);
  Poll();
  ASSERT_EQ(absent[0]->code(), absl::StatusCode::kDeadlineExceeded);
  Split();
  ExpectFound();
}

TEST_F(CoreWaitingTest, AGetHasTheFlightOfOneThatWaitedWhenTheConnectionWasLost) {
  auto absent = StartWaiting(2);
  network_.hold_reads = false;
  network_.accepting = false;
  network_.Break();
  PollFor(21, absent[1]->operation);
  Poll();
  for (const auto& get : absent) EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
  network_.accepting = true;
  network_.Break();
  Poll();
  clock_.AdvanceMs(options_.max_backoff_ms + 1);
  absent = StartWaiting(1);
  Split();
  ExpectFound();
}

// A refresh that finds the send queue full is posted when there is room; then all gets that wait for it continue.
TEST_F(CoreTest, ARefreshThatFindsNoRoomIsPostedLater) {
  server_->Put("0", "0");
  Connect();
  for (int i = 0; i < 50'000; ++i) {
    server_->Put(std::to_string(i), "v");
    server_->now_ns += 100'000'000;
  }
  network_.read_room = 1;  // for the bucket
  auto get = Start(Kind::kGet, "0");
  Poll();
  ASSERT_EQ(core_->stats().directory_refreshes, 1);
  ASSERT_FALSE(get->done());
  EXPECT_LE(core_->wait_ms(), 1);  // Expect: it looks again soon, since free room causes no event
  network_.read_room = SIZE_MAX;
  Poll();
  ASSERT_TRUE(get->done());
  EXPECT_TRUE(get->status().ok()) << get->status();
}

TEST_F(CoreTest, RemembersWhereItemsLie) {
  options_.mirror_bytes = 1 << 20;
  server_->Put("key", "value");
  Connect();
  const auto reads = [this](absl::string_view key) {
    const uint64_t before = network_.reads;
    Get(key);
    return network_.reads - before;
  };
  EXPECT_EQ(reads("key"), 2);
  EXPECT_EQ(reads("key"), 1);
  EXPECT_EQ(core_->stats().cached_hits, 1);
  // Another client writes: in the same place, then elsewhere. The old place shows the new one.
  server_->Put("key", "another");
  EXPECT_EQ(reads("key"), 1);
  server_->Put("key", std::string(100, 'v'));
  EXPECT_EQ(reads("key"), 2);
  EXPECT_EQ(reads("key"), 1);
  EXPECT_EQ(core_->stats().stale_locations, 0);
  // Expect: a write remembers its location, a delete forgets it.
  EXPECT_TRUE(Put("new", "value").ok());
  EXPECT_EQ(reads("new"), 1);
  EXPECT_TRUE(Do(Kind::kDelete, "new")->status().ok());
  EXPECT_EQ(reads("new"), 1);  // of the bucket: nothing matches
  EXPECT_EQ(core_->stats().stale_locations, 0);
  // Another client deletes: the old location is stale.
  server_->Delete("key");
  EXPECT_EQ(Do(Kind::kGet, "key")->code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(core_->stats().stale_locations, 1);
  EXPECT_EQ(reads("key"), 1);
}

TEST_F(CoreTest, ARegionOfNoiseIsRefused) {
  std::mt19937_64 random(3);
  for (size_t i = 0; i < server_->region().size(); i += 8) kv::StoreWord(server_->region().data() + i, random());
  MakeCore();
  core_->Connect();
  Poll();
  EXPECT_FALSE(core_->ready());
  EXPECT_EQ(core_->refused().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoreTest, NoiseInTheTableEndsInAStatusByTheDeadline) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 1000; ++i) server_->Put(std::to_string(i), Pattern(100));
  Connect();
  // More and more of the region is noise, in the end also the header and directory. In some rounds the server does not
  // answer.
  for (int round = 0; round < 15; ++round) {
    const uint64_t from = round < 10 ? 64 : 0;
    for (int i = 0; i < 100'000; ++i) {
      const uint64_t at = from + random() % (server_->region().size() / 8 - 8) * 8;
      if (at + 8 <= server_->region().size()) kv::StoreWord(server_->region().data() + at, random());
    }
    network_.hold_requests = true;
    std::vector<std::unique_ptr<OwnedOperation>> gets;
    for (int i = 0; i < 20; ++i) gets.push_back(Start(Kind::kGet, std::to_string(random() % 1100), "", 50));
    for (int ms = 0; ms <= 50; ++ms) {
      Poll();
      clock_.AdvanceMs(1);
    }
    for (const auto& get : gets) {
      ASSERT_TRUE(get->done());
      if (get->status().ok()) {
        EXPECT_TRUE(get->result == Pattern(100));
      }
    }
    if (round % 5 == 4) network_.Break();
  }
}

TEST_F(CoreTest, MemoryOfAServerThatDiedIsNotBelieved) {
  Connect();
  server_->Put("key", "value");
  network_.server_alive = false;
  network_.accepting = false;
  auto get = Start(Kind::kGet, "key", "", 10);
  PollFor(20, get->operation);
  EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace farlook::client
