// A primary and its backup in one thread: what the test carries from one to the other arrives.
#include "server/backup.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/group_stream.h"
#include "server/test_worker.h"

namespace farlook::server {
namespace {

using cluster::Batch;
using cluster::Record;
using kv::Code;
using kv::Condition;
using kv::RequestType;

constexpr uint64_t kEpoch = 1, kPrimary = kTestIncarnation, kBackup = 77;
constexpr size_t kRegionBytes = 32 << 20;

std::string BatchOf(std::vector<Record> records, uint64_t first, uint64_t commit, uint64_t epoch = kEpoch) {
  for (size_t i = 0; i < records.size(); ++i) records[i].sequence = first + i;
  return cluster::EncodeBatch(
      {.epoch = epoch, .primary = kPrimary, .commit = commit, .first = first, .records = std::move(records)});
}

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    stream_.OnAdvanced([this] { t_.gate().Advanced(); });
    stream_.SetMembers({kBackup});
    EXPECT_TRUE(stream_.Follow(kBackup, 0).ok());
  }

  // Carries what there is, and acceptances back; of each batch at most so much.
  void Replicate(size_t most_bytes = 4000) {
    t_.PollAll();
    for (std::string batch = stream_.NextBatch(kBackup, most_bytes); !batch.empty();
         batch = stream_.NextBatch(kBackup, most_bytes)) {
      const absl::Status taken = backup_.Take(batch);
      ASSERT_TRUE(taken.ok()) << taken;
      ASSERT_TRUE(stream_.Accepted(kBackup, backup_.accepted()).ok());
      t_.PollAll();
    }
  }
  TestReply Do(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    Replicate();
    return *TestWorker::TakeReply(call);
  }
  // "version value", or "".
  static std::string ItemIn(TestWorker& t, absl::string_view key) {
    kv::ItemView item;
    if (t.table().Get(t.table().HashOf(key), key, &item).code != Code::kOk) return "";
    return absl::StrCat(item.version, " ", item.value);
  }
  void ExpectSameTables() {
    EXPECT_EQ(b_.table().stats().keys, t_.table().stats().keys);
    EXPECT_EQ(b_.table().stats().value_bytes, t_.table().stats().value_bytes);
    EXPECT_EQ(b_.table().stats().used_bytes, t_.table().stats().used_bytes);
    for (int i = 0; i < 100; ++i) {
      const std::string key = absl::StrCat("key", i);
      EXPECT_EQ(ItemIn(b_, key), ItemIn(t_, key)) << key;
    }
  }

  GroupStream stream_{kEpoch, kPrimary, 1, {}, 1 << 20};
  TestWorker t_{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream_};
  TestWorker b_{kRegionBytes};
  Backup backup_{&b_.table(), &b_.locks(), &b_.clock, ServerTime(), kEpoch, kPrimary};
};

TEST_F(BackupTest, HasWhatItsPrimaryHas) {
  FakeCall* call = t_.Connect();
  const uint64_t version = Do(call, MakePut(1, "key1", "value")).version;
  EXPECT_EQ(ItemIn(b_, "key1"), absl::StrCat(version, " value"));
  EXPECT_EQ(b_.ReadKey("key1"), "value") << "as a client would read it";
  Do(call, MakePut(2, "key1", std::string(3000, 'x')));
  ExpectSameTables();
  Do(call, MakeRequest(RequestType::kDelete, 3, "key1"));
  EXPECT_EQ(ItemIn(b_, "key1"), "");
  ExpectSameTables();
}

TEST_F(BackupTest, NothingOfARecordIsSeenBeforeItIsCommitted) {
  std::string batch = BatchOf({{.version = 2 << 1, .key = "key1", .value = "v"}}, 1, 0);
  const uint64_t partition = static_cast<uint64_t>(b_.table().PartitionOf(b_.table().HashOf("key1")));
  batch = BatchOf({{.session = 7, .number = 1, .version = 2 << 1 | partition, .key = "key1", .value = "v"}}, 1, 0);
  ASSERT_TRUE(backup_.Take(batch).ok());
  EXPECT_EQ(backup_.accepted(), 1u);
  EXPECT_EQ(backup_.applied(), 0u);
  EXPECT_EQ(b_.ReadKey("key1"), std::nullopt);
  EXPECT_EQ(backup_.outcomes().size(), 0u);
  ASSERT_TRUE(backup_.Take(BatchOf({}, 2, 1)).ok());
  EXPECT_EQ(backup_.applied(), 1u);
  EXPECT_EQ(b_.ReadKey("key1"), "v");
  EXPECT_EQ(backup_.outcomes().size(), 1u);
}

// Connections lose, repeat and tear.
TEST_F(BackupTest, TablesAreEqualWhateverBecomesOfBatches) {
  std::mt19937_64 random(5);
  std::vector<FakeCall*> calls = {t_.Connect(), t_.Connect(), t_.Connect()};
  std::vector<uint64_t> numbers(calls.size());
  std::string last;
  int torn = 0, missing = 0;
  for (int i = 0; i < 6000; ++i) {
    const size_t who = random() % calls.size();
    if (random() % 2 == 0 && numbers[who] < i / 4u + 1) {
      const std::string key = absl::StrCat("key", random() % 100);
      const uint64_t number = numbers[who] + 1;
      std::string value(random() % 8 == 0 ? random() % 3000 : random() % 100, static_cast<char>('a' + i % 26));
      kv::Request request = MakePut(number, key, value, static_cast<Condition>(random() % 3));
      if (random() % 4 == 0) request = MakeRequest(RequestType::kDelete, number, key);
      // As many at once as the window allows.
      if (number % kTestWindow == 0) {
        ASSERT_TRUE(stream_.Follow(kBackup, backup_.accepted()).ok());
        Replicate();
        while (TestWorker::TakeReply(calls[who]).has_value()) continue;
      }
      numbers[who] = number;
      calls[who]->peer.Send(Encode(request));
      t_.PollAll();
      continue;
    }
    std::string batch = stream_.NextBatch(kBackup, random() % 500);
    if (batch.empty() && !last.empty()) batch = last;
    if (batch.empty()) continue;
    last = batch;
    absl::Status taken = absl::OkStatus();
    switch (random() % 4) {
      case 0:
        batch[random() % batch.size()] ^= 4;
        taken = backup_.Take(batch);
        EXPECT_TRUE(absl::IsInvalidArgument(taken)) << taken;
        ++torn;
        break;
      case 1:
        break;  // lost
      default:
        taken = backup_.Take(batch);
        missing += absl::IsFailedPrecondition(taken) ? 1 : 0;
    }
    // A connection that told of damage is replaced.
    if (!taken.ok() || random() % 4 == 0) {
      ASSERT_TRUE(stream_.Follow(kBackup, backup_.accepted()).ok());
    }
    ASSERT_TRUE(stream_.Accepted(kBackup, backup_.accepted()).ok());
    t_.PollAll();
  }
  ASSERT_TRUE(stream_.Follow(kBackup, backup_.accepted()).ok());
  for (int i = 0; i < 10; ++i) Replicate();
  EXPECT_EQ(backup_.applied(), stream_.last());
  EXPECT_GT(torn, 100);
  EXPECT_GT(missing, 20);
  EXPECT_GT(t_.table().stats().puts, 500u);
  EXPECT_GT(t_.table().stats().deletes, 100u);
  ExpectSameTables();
}

TEST_F(BackupTest, ARequestThatIsSentAgainToItsSuccessorIsAnsweredAndNotDoneAgain) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  const TestReply put = Do(call, MakePut(1, "key1", "v", Condition::kAbsent));
  EXPECT_EQ(Do(call, MakePut(2, "key1", "w", Condition::kAbsent)).code, Code::kExists);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kGet, 3, "key1")).payload, "v");
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kDelete, 4, "key1")).version, put.version);
  // This one is accepted, and the primary ends before it says so.
  call->peer.Send(Encode(MakePut(5, "key2", "v", Condition::kAbsent)));
  call->peer.Send(Encode(MakePut(6, "key2", "w", Condition::kPresent)));
  t_.PollAll();
  ASSERT_TRUE(backup_.Take(stream_.NextBatch(kBackup, 10'000)).ok());
  EXPECT_EQ(b_.ReadKey("key2"), std::nullopt);

  ASSERT_TRUE(backup_.Promote().ok());
  EXPECT_EQ(b_.ReadKey("key2"), "v");
  b_.worker().Restore(kPrimary, backup_.outcomes());
  FakeCall* next = b_.Call(hello);
  b_.PollAll();
  EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
  EXPECT_EQ(TestWorker::WelcomeOf(next).session, hello.session);
  const TestReply again = *b_.Ask(next, MakePut(1, "key1", "v", Condition::kAbsent));
  EXPECT_EQ(again.code, Code::kOk);
  EXPECT_EQ(again.version, put.version);
  EXPECT_EQ(b_.Ask(next, MakePut(2, "key1", "w", Condition::kAbsent))->code, Code::kExists);
  EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kGet, 3, "key1"))->code, Code::kNotFound) << "reads are done again";
  EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kDelete, 4, "key1"))->version, put.version);
  EXPECT_EQ(b_.Ask(next, MakePut(5, "key2", "v", Condition::kAbsent))->code, Code::kOk);
  EXPECT_EQ(b_.ReadKey("key1"), std::nullopt);
  // Expect: what had not been accepted is done now, and versions go on above all that the former primary gave.
  const TestReply late = *b_.Ask(next, MakePut(6, "key2", "w", Condition::kPresent));
  EXPECT_EQ(late.code, Code::kOk);
  EXPECT_EQ(b_.ReadKey("key2"), "w");
  EXPECT_GT(late.version >> 1, put.version >> 1);
}

TEST_F(BackupTest, AcceptsNothingTornMissingOrOfAnotherEpoch) {
  const uint64_t hash = b_.table().HashOf("key1");
  const uint64_t version = 2 << 1 | static_cast<uint64_t>(b_.table().PartitionOf(hash));
  const Record put{.version = version, .key = "key1", .value = "v"};
  std::string torn = BatchOf({put}, 1, 1);
  torn.back() ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(backup_.Take(torn)));
  EXPECT_TRUE(absl::IsFailedPrecondition(backup_.Take(BatchOf({put}, 2, 2))));
  EXPECT_TRUE(absl::IsFailedPrecondition(backup_.Take(BatchOf({put}, 1, 1, kEpoch + 1))));
  EXPECT_EQ(backup_.accepted(), 0u);
  EXPECT_EQ(b_.table().stats().used_bytes, 0u);
  EXPECT_TRUE(backup_.Take(BatchOf({put}, 1, 1)).ok());
  EXPECT_EQ(b_.ReadKey("key1"), "v");
}

TEST_F(BackupTest, ATableOfAnotherShapeIsFoundOut) {
  const uint64_t hash = b_.table().HashOf("key1");
  const uint64_t other = 2 << 1 | (1 ^ static_cast<uint64_t>(b_.table().PartitionOf(hash)));
  const std::string batch = BatchOf({{.version = other, .key = "key1", .value = "v"}}, 1, 1);
  EXPECT_TRUE(absl::IsDataLoss(backup_.Take(batch)));
  EXPECT_TRUE(absl::IsDataLoss(backup_.Take(BatchOf({}, 1, 1)))) << "it stays so";
}

TEST_F(BackupTest, WithoutRoomItAcceptsNoMore) {
  TestWorker small(16 << 20);
  Backup backup(&small.table(), &small.locks(), &small.clock, ServerTime(), kEpoch, kPrimary);
  absl::Status taken = absl::OkStatus();
  uint64_t sequence = 1;
  for (; taken.ok() && sequence < 100; ++sequence) {
    const std::string key = absl::StrCat("key", sequence);
    const uint64_t partition = static_cast<uint64_t>(small.table().PartitionOf(small.table().HashOf(key)));
    const Record put{.version = (sequence + 1) << 1 | partition, .key = key, .value = std::string(1 << 20, 'v')};
    taken = backup.Take(BatchOf({put}, sequence, sequence));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(taken)) << taken;
  EXPECT_EQ(backup.accepted(), sequence - 2);
  EXPECT_EQ(backup.applied(), sequence - 2);
  EXPECT_TRUE(absl::IsResourceExhausted(backup.Take(BatchOf({}, sequence - 1, sequence - 2))));
}

TEST_F(BackupTest, ExpiryIsRemainingTime) {
  const uint64_t partition = static_cast<uint64_t>(b_.table().PartitionOf(b_.table().HashOf("key1")));
  const Record put{.version = 2 << 1 | partition, .expires_in_us = 5'000'000, .key = "key1", .value = "v"};
  b_.clock.AdvanceMs(100'000);
  ASSERT_TRUE(backup_.Take(BatchOf({put}, 1, 1)).ok());
  b_.clock.AdvanceMs(4'900);
  EXPECT_NE(ItemIn(b_, "key1"), "");
  b_.clock.AdvanceMs(200);
  EXPECT_EQ(ItemIn(b_, "key1"), "");
}

TEST_F(BackupTest, APrimaryWithoutMembersAnswersAtOnce) {
  stream_.SetMembers({});
  FakeCall* call = t_.Connect();
  EXPECT_EQ(t_.Ask(call, MakePut(1, "key1", "v"))->code, Code::kOk);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kGet, 2, "key1"))->payload, "v");
}

TEST(Outcomes, TheLastToldOfARequestIsWhatCounts) {
  Outcomes outcomes;
  outcomes.Note(7, {.number = 1, .code = Code::kOk, .version = 5});
  outcomes.Note(7, {.number = 2, .code = Code::kOk, .version = 6});
  outcomes.Note(7, {.number = 1, .code = Code::kIndexFull, .version = 0});
  ASSERT_EQ(outcomes.sessions().size(), 1u);
  EXPECT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes.sessions().front().told[0].code, Code::kIndexFull);
}

TEST(Outcomes, AreBoundedAndWhoIsForgottenIsKnown) {
  Outcomes outcomes(/*most=*/10'000);
  for (uint64_t number = 1; number <= 6000; ++number) outcomes.Note(1, {.number = number});
  EXPECT_EQ(outcomes.size(), kv::kMaxWindow);
  EXPECT_EQ(outcomes.sessions().front().told.front().number, 6000 - kv::kMaxWindow + 1);
  for (uint64_t number = 1; number <= 5000; ++number) outcomes.Note(2, {.number = number});
  outcomes.Note(1, {.number = 6001});
  EXPECT_TRUE(outcomes.forgotten().empty());
  for (uint64_t number = 1; number <= 3000; ++number) outcomes.Note(3, {.number = number});
  EXPECT_EQ(outcomes.forgotten(), (std::vector<uint64_t>{2})) << "1 was heard of later";
  EXPECT_EQ(outcomes.size(), kv::kMaxWindow + 3000u);
}

}  // namespace
}  // namespace farlook::server
