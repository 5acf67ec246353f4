// ClientCore and its index mirror: what warming READs, what it saves, and that no content of the mirror changes a
// result.
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/reads/mirror_memory.h"
#include "client/testing/core_testing.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/size_class.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"

namespace farlook::client {
namespace {

constexpr int kKeys = 3'000;

class CoreMirrorTest : public CoreTest {
 protected:
  CoreMirrorTest() {
    options_.mirror_bytes = 64 << 20;
    for (int i = 0; i < kKeys; ++i) {
      EXPECT_EQ(server_->Put(std::to_string(i), Pattern(i % 50, i)).code, kv::Code::kOk);
    }
  }

  void ExpectAllRight() {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_EQ(Get(std::to_string(i)), Pattern(i % 50, i)) << i;
      if (i % 10 != 0) continue;
      ASSERT_EQ(Do(Kind::kGet, "absent" + std::to_string(i))->code(), absl::StatusCode::kNotFound);
    }
  }
  uint64_t ReadsOfAllKeys() {
    const uint64_t before = network_.reads;
    for (int i = 0; i < kKeys; ++i) EXPECT_EQ(Get(std::to_string(i)), Pattern(i % 50, i)) << i;
    return network_.reads - before;
  }
};

TEST_F(CoreMirrorTest, AfterWarmingEachGetIsOneRead) {
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  const uint64_t segments = server_->table().stats().segments;
  EXPECT_EQ(core_->stats().warming_reads, segments);
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
  EXPECT_EQ(core_->stats().bucket_reads + core_->stats().item_reads, network_.reads - segments - 4);
  // Expect: an absent key costs one READ too, that of the bucket.
  const uint64_t before = network_.reads;
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(Do(Kind::kGet, "a" + std::to_string(i))->code(), absl::StatusCode::kNotFound);
  EXPECT_LE(network_.reads - before, 1'020 + 100) << "but for overflow buckets";
  // Expect: other clients' updates in place change nothing.
  for (int i = 0; i < kKeys; ++i) server_->Put(std::to_string(i), Pattern(i % 50, i + 1));
  const uint64_t updated = network_.reads;
  for (int i = 0; i < kKeys; ++i) EXPECT_EQ(Get(std::to_string(i)), Pattern(i % 50, i + 1));
  EXPECT_LE(network_.reads - updated, kKeys * 102 / 100);
  ExpectNoViolations();
}

// For a client that has been idle since the index grew, and so has not noticed it.
TEST_F(CoreMirrorTest, WarmingAgainReadsWhatTheIndexHasGrownBy) {
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  const int level = IndexState().level();
  int more = 0;
  for (; IndexState().level() < level + 2; ++more) {
    ASSERT_EQ(server_->Put("more" + std::to_string(more), Pattern(more % 50, more)).code, kv::Code::kOk);
    server_->now_ns += 100'000'000;
  }
  const uint64_t before = core_->stats().warming_reads;
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  EXPECT_EQ(core_->stats().warming_reads - before, server_->table().stats().segments);
  const uint64_t reads = network_.reads;
  for (int i = 0; i < more; ++i) EXPECT_EQ(Get("more" + std::to_string(i)), Pattern(i % 50, i));
  EXPECT_LE(network_.reads - reads, static_cast<uint64_t>(more) * 102 / 100);
}

// Gets that meet a split and warming both need the directory: one waits for the other's refresh.
TEST_F(CoreMirrorTest, WarmingWaitsForARefreshThatAGetWants) {
  Connect();
  const int level = IndexState().level();
  for (int i = 0; IndexState().level() < level + 1; ++i) {
    ASSERT_EQ(server_->Put("more" + std::to_string(i), "v").code, kv::Code::kOk);
    server_->now_ns += 100'000'000;
  }
  std::vector<decltype(Start(Kind::kGet, ""))> gets;
  network_.hold_reads = true;
  for (int i = 0; i < 50; ++i) gets.push_back(Start(Kind::kGet, "more" + std::to_string(i)));
  Poll();
  network_.ReleaseReads();  // of buckets: the first that is out of date causes a READ of the directory
  Poll();
  auto warm = Start(Kind::kWarm, "");
  Poll();
  network_.hold_reads = false;
  network_.ReleaseReads();
  PollFor(options_.timeout_ms, warm->operation);
  ASSERT_TRUE(warm->done());
  EXPECT_TRUE(warm->status().ok()) << warm->status();
  for (auto& get : gets) {
    PollFor(options_.timeout_ms, get->operation);
    EXPECT_TRUE(get->status().ok()) << get->status();
  }
  EXPECT_GE(core_->stats().directory_refreshes, 2u);
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
}

TEST_F(CoreMirrorTest, OneGetBringsTheOtherKeysOfItsBucket) {
  Connect();
  const uint64_t cold = ReadsOfAllKeys();
  EXPECT_LT(cold, 2 * kKeys * 3 / 4) << "of 240 buckets in each segment";
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
}

TEST_F(CoreMirrorTest, WarmingGoesOnOverALostConnection) {
  Connect();
  network_.hold_reads = true;
  auto warm = Start(Kind::kWarm, "");
  for (int i = 0; i < 3; ++i) {  // the header and the directory, then segments
    Poll();
    EXPECT_FALSE(warm->done());
    if (i < 2) network_.ReleaseReads();
  }
  EXPECT_GT(core_->stats().warming_reads, 0);
  network_.Break();
  network_.hold_reads = false;
  PollFor(options_.timeout_ms, warm->operation);
  ASSERT_TRUE(warm->done());
  EXPECT_TRUE(warm->status().ok()) << warm->status();
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
}

TEST_F(CoreMirrorTest, WarmingEndsByItsDeadlineAndLeavesNothing) {
  Connect();
  network_.hold_reads = true;
  const uint64_t memory = core_->memory_bytes();
  auto warm = Start(Kind::kWarm, "", "", /*timeout_ms=*/20);
  auto second = Start(Kind::kWarm, "", "", /*timeout_ms=*/40);
  PollFor(21, warm->operation);
  EXPECT_EQ(warm->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(second->done());
  EXPECT_GT(core_->memory_bytes(), memory);
  PollFor(41, second->operation);
  EXPECT_EQ(second->code(), absl::StatusCode::kDeadlineExceeded);
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(core_->memory_bytes(), memory);
  EXPECT_EQ(Get("17"), Pattern(17, 17));
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
}

TEST_F(CoreMirrorTest, AFullQueueHoldsWarmingUpAndNoMore) {
  Connect();
  network_.read_room = 1;
  auto warm = Start(Kind::kWarm, "");
  for (int i = 0; i < 1'000 && !warm->done(); ++i) {
    if (core_->stats().warming_reads > 0) {
      EXPECT_LE(core_->wait_ms(), 1);
    }
    Poll();
    network_.read_room = 1;
  }
  network_.read_room = SIZE_MAX;
  ASSERT_TRUE(warm->done());
  EXPECT_TRUE(warm->status().ok()) << warm->status();
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
}

TEST_F(CoreMirrorTest, ADirectoryThatGrowsMeanwhileIsReadAgain) {
  Connect();
  network_.read_room = 1;
  auto warm = Start(Kind::kWarm, "");
  const auto poll = [this] {
    network_.read_room = 1;
    Poll();
  };
  const uint64_t segments = server_->table().stats().segments;
  while (core_->stats().warming_reads < segments / 2) poll();
  const uint64_t refreshes = core_->stats().directory_refreshes;
  const int level = IndexState().level();
  for (int i = 0; IndexState().level() < level + 2; ++i) {
    ASSERT_EQ(server_->Put("more" + std::to_string(i), "v").code, kv::Code::kOk);
    server_->now_ns += 100'000'000;
  }
  // Expect: a get meets a segment that was split, so this client notices it.
  for (int i = 0; i < kKeys && core_->stats().directory_refreshes == refreshes; ++i) {
    auto get = Start(Kind::kGet, "more" + std::to_string(i));
    while (!get->done()) poll();
    ASSERT_FALSE(warm->done());
  }
  network_.read_room = SIZE_MAX;
  PollFor(options_.timeout_ms, warm->operation);
  ASSERT_TRUE(warm->status().ok()) << warm->status();
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
}

TEST_F(CoreMirrorTest, WhereThereIsNothingToWarmItSaysSo) {
  options_.mirror_bytes = 0;
  Connect();
  const auto without = Do(Kind::kWarm, "");
  EXPECT_EQ(without->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(without->status().message().find("mirror_bytes"), absl::string_view::npos);
  options_.mirror_bytes = 1 << 20;
  options_.lookups = Lookups::kMessages;
  Connect();
  EXPECT_EQ(Do(Kind::kWarm, "")->code(), absl::StatusCode::kFailedPrecondition);
  // Expect: on the server's host the index itself is used.
  options_.lookups = Lookups::kReads;
  network_.capabilities.local = true;
  Connect();
  const uint64_t reads = network_.reads;
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  EXPECT_EQ(network_.reads, reads);
  EXPECT_LT(core_->memory_bytes(), 1u << 20) << "and no mirror";
}

// The item at the mirror's location is READ before a lookup begins, and mostly no lookup is needed. Otherwise nothing
// differs.
TEST_F(CoreMirrorTest, WhatIsFoundAtFirstCountsAsAnyOther) {
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  const ClientStats before = core_->stats();
  EXPECT_EQ(Get("17"), Pattern(17, 17));
  EXPECT_TRUE(Do(Kind::kExists, "17")->status().ok());
  EXPECT_TRUE(Do(Kind::kTtl, "17")->status().ok());
  OwnedOperation into(Kind::kGet, "17");
  char buffer[16];
  into.operation.to = {nullptr, absl::MakeSpan(buffer)};
  core_->Start(&into.operation);
  Poll();
  EXPECT_EQ(into.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(into.operation.value_bytes, 17);
  const ClientStats& after = core_->stats();
  EXPECT_EQ(after.gets - before.gets, 4);
  EXPECT_EQ(after.hits - before.hits, 4);
  EXPECT_EQ(after.cached_hits - before.cached_hits, 3) << "Ttl is none";
  EXPECT_EQ(after.item_reads - before.item_reads, 4);
  EXPECT_EQ(after.bucket_reads, before.bucket_reads);
  EXPECT_EQ(after.stale_locations, before.stale_locations);
}

TEST_F(CoreMirrorTest, WhatExpiresIsJudgedByTheLookup) {
  Connect();
  PutFor(/*ttl_ms=*/50, "17", "short-lived");
  const uint64_t reads = network_.reads;
  EXPECT_EQ(Get("17"), "short-lived");
  EXPECT_EQ(network_.reads, reads + 1) << "the writer remembers where it lies";
  clock_.AdvanceMs(100);
  server_->now_ns += 100'000'000;
  EXPECT_EQ(Do(Kind::kGet, "17")->code(), absl::StatusCode::kNotFound);
}

TEST_F(CoreMirrorTest, AFirstReadMayFindNoRoomOrNoEnd) {
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  network_.read_room = 0;
  auto get = Start(Kind::kGet, "17");
  Poll();
  EXPECT_FALSE(get->done());
  network_.read_room = SIZE_MAX;
  network_.hold_reads = true;
  Poll();
  EXPECT_EQ(network_.held_reads(), 1);
  // Expect: a get that ends by its deadline counts no READ; a lookup that used its flight before had counted some.
  const ClientStats before = core_->stats();
  auto late = Start(Kind::kGet, "18", "", /*timeout_ms=*/20);
  PollFor(21, late->operation);
  EXPECT_EQ(late->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->stats().item_reads, before.item_reads);
  EXPECT_EQ(core_->stats().bucket_reads, before.bucket_reads);
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  ASSERT_TRUE(get->done());
  EXPECT_EQ(get->result, Pattern(17, 17));
  ExpectAllRight();
}

TEST_F(CoreMirrorTest, AMirrorThatIsTooShortIsFilledOnce) {
  options_.mirror_bytes = 2 * kv::kSegmentBytes;
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  EXPECT_EQ(core_->stats().warming_reads, 2);
  ExpectAllRight();
}

// Another process answers at the address: knowledge of the one before is dropped.
TEST_F(CoreMirrorTest, AnotherIncarnationHasAMirrorOfItsOwn) {
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  auto next = std::make_unique<MiniServer>(4712);
  network_.server = next.get();
  network_.Break();
  for (int i = 0; i < kKeys; ++i) next->Put(std::to_string(i), Pattern(i % 50, i));
  EXPECT_EQ(Get("1"), Pattern(1, 1));
  EXPECT_EQ(core_->stats().cached_hits, 0);
  EXPECT_EQ(core_->stats().stale_locations, 0);
  network_.server = server_.get();
  core_ = nullptr;
}

// Clients of one user share what they learn. A hostile process of that user can only cost them READs.
class SharedMirrorTest : public CoreMirrorTest {
 protected:
  SharedMirrorTest() {
    const std::string directory = testing::TempDir() + "/runtime";
    mkdir(directory.c_str(), 0700);
    setenv("XDG_RUNTIME_DIR", directory.c_str(), 1);
    options_.share_mirror = true;
    options_.mirror_bytes = 1 << 26;
  }
  ~SharedMirrorTest() override { unsetenv("XDG_RUNTIME_DIR"); }

  MirrorMemory Memory() { return MirrorMemory::Shared(MirrorMemory::DirectoryOfUser(), 4711, MirrorBytes()); }
  uint64_t MirrorBytes() const {
    return std::min<uint64_t>(options_.mirror_bytes, std::bit_ceil(server_->region().size()));
  }
};

TEST_F(SharedMirrorTest, WhatOneReadsOthersKnow) {
  const MirrorMemory kept = Memory();
  ASSERT_NE(kept.data(), nullptr);
  Connect();
  EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
  Connect();  // another client
  EXPECT_LE(ReadsOfAllKeys(), kKeys * 102 / 100);
  EXPECT_EQ(core_->stats().warming_reads, 0);
}

TEST_F(SharedMirrorTest, NoiseCostsReadsAndNothingElse) {
  const MirrorMemory memory = Memory();
  network_.set_most_buffer_bytes(4 << 20);
  Connect();
  std::mt19937_64 random(2);
  const uint64_t region_bytes = server_->region().size();
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    EXPECT_TRUE(Do(Kind::kWarm, "")->status().ok());
    kv::Slot other;
    for (uint64_t at = 0; at < memory.bytes(); at += 8) {
      const uint64_t word = kv::LoadWord(memory.data() + at);
      if (word == 0) continue;
      const bool described = at % kv::kBucketBytes == 0;
      const kv::Slot slot(word);
      const uint64_t anywhere = 32 * (1 + random() % (region_bytes / 32 - 1));
      uint64_t noise = word;
      switch (round) {
        case 0:
          noise = random();
          break;
        case 1:  // an empty or random location
          if (!described) noise = kv::Slot(slot.fingerprint(), random() % 16, anywhere).word();
          break;
        case 2:  // beyond the region
          if (!described) noise = word | 0xfffffffff;
          break;
        case 3:  // so long that there is no memory for it
          if (!described) noise = kv::Slot(slot.fingerprint(), kv::SizeClassFor(16 << 20), 32).word();
          break;
        case 4:  // another key's item
          if (!described) noise = kv::Slot(slot.fingerprint(), other.size_class(), other.offset()).word();
          if (!described) other = slot;
          break;
        case 5:
          if (described) noise = word ^ (random() % 32) << 8;
          break;
        default:
          break;
      }
      kv::StoreWord(memory.data() + at, noise);
    }
    ExpectAllRight();
  }
  EXPECT_GT(core_->stats().stale_locations, 0);
  EXPECT_EQ(core_->stats().server_gets, 0);
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
