// Gets that ClientCore completes at once over a local connection: their results, and the cases that it leaves to the
// general path.
#include <string>
#include <vector>

#include "client/testing/core_testing.h"
#include "gmock/gmock.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"

namespace farlook::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// For a single get, and for one in a batch.
class DirectTest : public CoreTest, public testing::WithParamInterface<bool> {
 protected:
  DirectTest() {
    network_.capabilities.local = true;
    network_.capabilities.any_local_memory = true;
  }

  // Starts an operation like the blocking calls.
  std::unique_ptr<OwnedOperation> Begin(Kind kind, absl::string_view key) {
    auto owned = std::make_unique<OwnedOperation>(kind, key);
    owned->operation.blocking = true;
    StartUntimed(&owned->operation);
    return owned;
  }
  void StartUntimed(Operation* operation) {
    if (GetParam()) {
      core_->StartUntimed(operation, operation->kind);
    } else {
      core_->StartUntimed(absl::MakeSpan(&operation, 1));
    }
  }
  // Ends a get that was left to the general path.
  void Finish(OwnedOperation* owned) {
    Operation* const operation = &owned->operation;
    core_->SetDeadlines({&operation, 1}, core_->DeadlineFromNow(0));
    PollFor(options_.timeout_ms + 1, owned->operation);
    ASSERT_TRUE(owned->done());
    EXPECT_EQ(core_->in_flight(), 0);
  }
  // Returns the version word of a key's item.
  char* VersionOf(absl::string_view key) {
    kv::ItemView item;
    const kv::WriteResult at = server_->table().Get(server_->table().HashOf(key), key, &item);
    return server_->region().data() + at.slot.offset() + kv::kVersionOffset;
  }
};

TEST_P(DirectTest, WhatIsStartedIsReturnedByPoll) {
  server_->Put("key", "value");
  Connect();
  OwnedOperation get(Kind::kGet, "key");
  core_->Start(&get.operation);
  EXPECT_EQ(core_->in_flight(), 1);
  Operation* ended = nullptr;
  for (int i = 0; i < 10 && ended == nullptr; ++i) core_->Poll(absl::MakeSpan(&ended, 1));
  ASSERT_EQ(ended, &get.operation);
  EXPECT_EQ(get.result, "value");
}

TEST_P(DirectTest, EndsAtOnceWithoutAPostAndWithoutTheClock) {
  server_->Put("key", "value");
  Connect();
  const int64_t readings = clock_.readings;
  const uint64_t reads = network_.reads;
  auto get = Begin(Kind::kGet, "key");
  ASSERT_TRUE(get->done());
  EXPECT_TRUE(get->status().ok());
  EXPECT_EQ(get->result, "value");
  EXPECT_EQ(get->operation.value_bytes, 5);
  EXPECT_EQ(get->operation.version, kv::LoadWord(VersionOf("key")));
  EXPECT_TRUE(Begin(Kind::kExists, "key")->done());
  EXPECT_EQ(clock_.readings, readings);
  EXPECT_EQ(network_.reads, reads);
  // Expect: absent keys too, with one reading of the clock.
  auto other = Begin(Kind::kGet, "other");
  ASSERT_TRUE(other->done());
  EXPECT_EQ(other->code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(other->status().message().empty());
  EXPECT_EQ(other->operation.version, 0);
  EXPECT_EQ(clock_.readings, readings + 1);
  EXPECT_EQ(network_.reads, reads);
  EXPECT_EQ(core_->stats().gets, 3);
  EXPECT_EQ(core_->stats().hits, 2);
  EXPECT_EQ(core_->stats().misses, 1);
  EXPECT_EQ(core_->stats().bucket_reads, 3);
  EXPECT_EQ(core_->stats().item_reads, 2);
  EXPECT_EQ(core_->in_flight(), 0);
}

TEST_P(DirectTest, ManyOfEveryKindAtOnce) {
  const auto value = [](int i) { return Pattern(static_cast<size_t>(i % 8) * 900, i); };
  for (int i = 0; i < 1000; i += 2) ASSERT_EQ(server_->Put(std::to_string(i), value(i)).code, kv::Code::kOk);
  Connect();
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  std::vector<Operation*> operations;
  for (int i = 0; i < 1000; ++i) {
    gets.push_back(std::make_unique<OwnedOperation>(Kind::kGet, i % 99 == 0 ? "" : std::to_string(i)));
    gets.back()->operation.blocking = true;
    operations.push_back(&gets.back()->operation);
  }
  core_->StartUntimed(operations);
  core_->SetDeadlines(operations);
  Poll();
  for (int i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    const OwnedOperation& get = *gets[static_cast<size_t>(i)];
    ASSERT_TRUE(get.done());
    if (i % 99 == 0) {
      EXPECT_EQ(get.code(), absl::StatusCode::kInvalidArgument);
    } else if (i % 2 == 1) {
      EXPECT_EQ(get.code(), absl::StatusCode::kNotFound);
    } else {
      EXPECT_TRUE(get.status().ok()) << get.status();
      EXPECT_TRUE(get.result == value(i));
    }
  }
  EXPECT_EQ(core_->stats().server_gets, 0);
  EXPECT_EQ(core_->stats().hits, 494);
}

TEST_P(DirectTest, ABufferReceivesTheValueOrItsLength) {
  Connect();
  for (size_t bytes : {0, 1, 100, 1000, 4000, 5000}) {
    SCOPED_TRACE(bytes);
    server_->Put("key", Pattern(bytes));
    std::string buffer(bytes + 1, 'x');
    OwnedOperation get(Kind::kGet, "key");
    get.operation.to.string = nullptr;
    get.operation.blocking = true;
    Operation* operation = &get.operation;
    operation->to.buffer = absl::MakeSpan(buffer).first(bytes);
    StartUntimed(operation);
    Finish(&get);
    EXPECT_TRUE(get.status().ok());
    EXPECT_TRUE(buffer.substr(0, bytes) == Pattern(bytes));
    EXPECT_EQ(buffer.back(), 'x');
    if (bytes == 0) continue;
    operation->to.buffer = absl::MakeSpan(buffer).first(bytes - 1);
    StartUntimed(operation);
    Finish(&get);
    EXPECT_EQ(get.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(operation->value_bytes, bytes);
  }
}

TEST_P(DirectTest, AnItemThatIsDeadOrTornIsLeftToTheOthers) {
  Connect();
  server_->Put("key", "value");
  char* const version = VersionOf("key");
  const uint64_t word = kv::LoadWord(version);
  for (const uint64_t wrong : {word | kv::kDeadBit, word + 1}) {
    kv::StoreWord(version, wrong);
    network_.hold_reads = true;
    auto get = Begin(Kind::kGet, "key");
    EXPECT_FALSE(get->done());
    kv::StoreWord(version, word);
    network_.hold_reads = false;
    network_.ReleaseReads();
    Finish(get.get());
    EXPECT_EQ(get->result, "value");
  }
  EXPECT_EQ(core_->stats().server_gets, 0);
}

TEST_P(DirectTest, AnItemThatIsNotPlainIsLeftToTheOthers) {
  Connect();
  server_->Put("key", "value");
  char* const version = VersionOf("key");
  // Expect: not found at once if any bit of version, expiry, lengths or value differs from the checksum or the tag. It
  // is found as soon as all match.
  for (int offset = -8; offset < 16; ++offset) {
    char* const byte = version + offset;
    *byte = static_cast<char>(*byte ^ 4);
    network_.hold_reads = true;
    auto get = Begin(Kind::kGet, "key");
    EXPECT_FALSE(get->done()) << offset;
    *byte = static_cast<char>(*byte ^ 4);
    network_.hold_reads = false;
    network_.ReleaseReads();
    Finish(get.get());
    EXPECT_EQ(get->result, "value");
    EXPECT_TRUE(Begin(Kind::kGet, "key")->done());
  }
}

TEST_P(DirectTest, AnItemThatExpiresIsLeftToTheOthers) {
  Connect();
  server_->Put("key", "value");
  char* const expiry = VersionOf("key") - kv::kVersionOffset + kv::kExpiryOffset;
  kv::StoreWord(expiry, kv::ExpiryWord(kv::LoadWord(VersionOf("key")), 1));
  auto get = Begin(Kind::kGet, "key");
  EXPECT_FALSE(get->done());
  Finish(get.get());
  EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
}

TEST_P(DirectTest, WithoutAMappingTheGetIsAnsweredAllTheSame) {
  network_.maps = false;
  Connect();
  server_->Put("key", "value");
  auto get = Begin(Kind::kGet, "key");
  EXPECT_FALSE(get->done());
  Finish(get.get());
  EXPECT_EQ(get->result, "value");
}

TEST_P(DirectTest, FollowsATableThatGrows) {
  server_->Put("0", "0");
  Connect();
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(server_->Put(std::to_string(i), std::to_string(i)).code, kv::Code::kOk);
    server_->now_ns += 100'000'000;
  }
  for (int i = 0; i < 20'000; i += 11) {
    auto get = Begin(Kind::kGet, std::to_string(i));
    Finish(get.get());
    ASSERT_EQ(get->result, std::to_string(i));
  }
  EXPECT_GT(core_->stats().directory_refreshes, 0);
  EXPECT_EQ(core_->stats().server_gets, 0);
}

TEST_P(DirectTest, AnAbsenceInMemoryThatIsNoBucketAnyMoreIsNotBelieved) {
  server_->Put("key", "value");
  Connect();
  ImitateBucketOf("key");
  Poll();  // the time is known
  auto get = Begin(Kind::kGet, "key");
  EXPECT_FALSE(get->done()) << "the directory is old: that takes more than one look";
  Finish(get.get());
  EXPECT_EQ(get->result, "value");
  EXPECT_EQ(core_->stats().server_gets, 0);
}

// Uses the bucket that the client reads for "key", which is absent.
class AbsentTest : public DirectTest {
 protected:
  AbsentTest() {
    server_->Put("another", "value");
    Connect();
    bucket_ = server_->region().data() + EntryOf("key").offset() + kv::BucketOf(hash()) * kv::kBucketBytes;
  }
  uint64_t hash() { return server_->table().HashOf("key"); }
  // Returns whether the key is found absent at once; if not, lets the general path end the get.
  bool AtOnce() {
    auto get = Begin(Kind::kGet, "key");
    const bool done = get->done();
    if (!done) Finish(get.get());
    EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
    return done;
  }

  char* bucket_;
};

TEST_P(AbsentTest, IsBelievedOnlyOfTheBucketThatWasLookedFor) {
  EXPECT_TRUE(AtOnce());
  const kv::BucketInfo info(kv::LoadWord(bucket_));
  const kv::BucketInfo others[] = {kv::BucketInfo(), kv::BucketInfo(info.segment_id() + 1, kv::BucketOf(hash()), 0),
                                   kv::BucketInfo(info.segment_id(), kv::BucketOf(hash()) ^ 1, 0), info.WithLink(1)};
  for (const kv::BucketInfo other : others) {
    SCOPED_TRACE(other.word());
    kv::StoreWord(bucket_, other.word());
    network_.hold_reads = true;
    auto get = Begin(Kind::kGet, "key");
    EXPECT_FALSE(get->done());
    kv::StoreWord(bucket_, info.word());
    network_.hold_reads = false;
    network_.ReleaseReads();
    Finish(get.get());
    EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
    EXPECT_TRUE(AtOnce());
  }
}

TEST_P(AbsentTest, IsNotBelievedWhereASlotBearsTheFingerprint) {
  for (size_t i = 1; i < kv::kWordsPerBucket; ++i) {
    SCOPED_TRACE(i);
    char* const word = bucket_ + 8 * i;
    const uint64_t before = kv::LoadWord(word);
    // The slot leads to memory without any item.
    kv::StoreWord(word, kv::Slot(kv::FingerprintOf(hash()), /*size_class=*/0, kv::kPageBytes).word());
    network_.hold_reads = true;
    auto get = Begin(Kind::kGet, "key");
    EXPECT_FALSE(get->done());
    kv::StoreWord(word, before);
    network_.hold_reads = false;
    network_.ReleaseReads();
    Finish(get.get());
  }
}

TEST_P(AbsentTest, IsNotBelievedIfItTookTooLong) {
  EXPECT_TRUE(AtOnce());
  network_.when_asked = [this] { clock_.AdvanceMs(25); };
  EXPECT_TRUE(AtOnce());
  network_.when_asked = [this] { clock_.AdvanceMs(26); };
  EXPECT_FALSE(Begin(Kind::kGet, "key")->done());
}

TEST_P(AbsentTest, NeedsALookAtTheEpochThatIsNotOld) {
  const uint64_t refreshes = core_->stats().directory_refreshes;
  clock_.AdvanceMs(25);
  EXPECT_TRUE(AtOnce());
  clock_.AdvanceMs(25);
  EXPECT_TRUE(AtOnce());
  EXPECT_EQ(core_->stats().directory_refreshes, refreshes);
  clock_.AdvanceMs(1);
  EXPECT_FALSE(AtOnce());
  EXPECT_EQ(core_->stats().directory_refreshes, refreshes + 1);
  EXPECT_TRUE(AtOnce());
}

TEST_P(AbsentTest, IsNotBelievedOfAServerThatIsGone) {
  network_.when_asked = [this] { network_.server_alive = false; };
  network_.accepting = false;
  auto get = Begin(Kind::kGet, "key");
  EXPECT_FALSE(get->done());
  Finish(get.get());
  EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->stats().misses, 0);
}

TEST_P(AbsentTest, SaysOnceThatTheServerIsAnotherOne) {
  server_ = std::make_unique<MiniServer>(4712);
  network_.server = server_.get();
  network_.Break();
  PollFor(options_.timeout_ms, Start(Kind::kPing, "")->operation);
  ASSERT_EQ(core_->stats().incarnation_changes, 1);
  auto get = Begin(Kind::kGet, "key");
  ASSERT_TRUE(get->done());
  EXPECT_EQ(get->code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(get->status().message()), HasSubstr("incarnation changed"));
  EXPECT_THAT(std::string(Begin(Kind::kGet, "key")->status().message()), Not(HasSubstr("incarnation changed")));
}

TEST_P(DirectTest, WhatWasReadAfterTheServerDiedIsNotBelieved) {
  Connect();
  server_->Put("key", "value");
  network_.when_asked = [this] { network_.server_alive = false; };
  network_.accepting = false;
  auto get = Begin(Kind::kGet, "key");
  EXPECT_FALSE(get->done());
  Finish(get.get());
  EXPECT_EQ(get->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->stats().hits, 0);
}

TEST_P(DirectTest, ABrokenConnectionIsMadeAnewAndUsed) {
  Connect();
  server_->Put("key", "value");
  network_.Break();
  auto get = Begin(Kind::kGet, "key");
  Finish(get.get());
  EXPECT_EQ(get->result, "value");
  EXPECT_TRUE(Begin(Kind::kGet, "key")->done());
  ExpectNoViolations();
}

INSTANTIATE_TEST_SUITE_P(Both, DirectTest, testing::Bool());
INSTANTIATE_TEST_SUITE_P(Both, AbsentTest, testing::Bool());

}  // namespace
}  // namespace farlook::client
