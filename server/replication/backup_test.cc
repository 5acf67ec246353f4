// A primary and its backup in one thread; the test carries the messages between them.
#include "server/replication/backup.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cluster/batch_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/item.h"
#include "server/replication/group_stream.h"
#include "server/replication/replication_feed.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using cluster::Record;
using kv::Code;
using kv::Condition;
using kv::RequestType;

constexpr uint64_t kEpoch = 1, kPrimary = kTestIncarnation, kBackup = 77;
constexpr size_t kRegionBytes = 32 << 20;

std::string BatchOf(std::vector<Record> records, uint64_t first, uint64_t commit, uint64_t epoch = kEpoch) {
  for (size_t i = 0; i < records.size(); ++i) records[i].sequence = first + i;
  return cluster::EncodeBatch({.epoch = epoch, .primary = kPrimary, .commit = commit, .first = first}, records);
}

constexpr RequestType kCounterTypes[] = {RequestType::kCounterCreate, RequestType::kCounterAdd,
                                         RequestType::kCounterSwap, RequestType::kCounterDelete};

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    stream_.SetMembers({kBackup});
    stream_.Expect({kBackup});
    Follow();
  }

  // Opens a new connection.
  void Follow() {
    const auto feed = stream_.Admit({.incarnation = kBackup, .epoch = kEpoch, .accepted = backup_.accepted()});
    ASSERT_TRUE(feed.ok()) << feed.status();
    feed_ = *feed;
  }
  std::string Next(size_t most_bytes) {
    return cluster::BytesOf(*stream_.NextBatch(feed_, most_bytes, t_.ShownTime(), true));
  }

  // Carries batches of at most `most_bytes`, and acceptances back, until there are none.
  void Replicate(size_t most_bytes = 4000) {
    t_.PollAll();
    for (std::string batch = Next(most_bytes); !batch.empty(); batch = Next(most_bytes)) {
      const absl::Status taken = backup_.Take(batch);
      ASSERT_TRUE(taken.ok()) << taken;
      ASSERT_TRUE(stream_.Accepted(feed_, {backup_.accepted()}).ok());
      t_.PollAll();
    }
  }
  TestReply Do(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    Replicate();
    return *TestWorker::TakeReply(call);
  }
  static kv::ItemView MustHave(TestWorker& t, absl::string_view key) {
    kv::ItemView item;
    EXPECT_EQ(t.table().Get(t.table().HashOf(key), key, &item).code, Code::kOk);
    return item;
  }
  // Makes the backup the primary, without members.
  void Succeed() {
    ASSERT_TRUE(backup_.Promote().ok());
    next_stream_.Lead(kEpoch + 1, kBackup, backup_.accepted() + 1);
    next_stream_.SetMembers({});
    b_.worker().Restore(kPrimary, backup_.outcomes());
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
  GroupStream next_stream_{1 << 20};
  TestWorker b_{kRegionBytes, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &next_stream_};
  Backup backup_{&b_.table(), &b_.locks(), &b_.clock, ServerTime(), kEpoch, kPrimary};
  FeedId feed_;
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

// The new primary's log ends earlier than this backup's.
TEST_F(BackupTest, WhatItsNewPrimaryLacksIsCutOff) {
  const uint64_t partition = static_cast<uint64_t>(b_.table().PartitionOf(b_.table().HashOf("key1")));
  const auto put = [&](uint64_t step, absl::string_view value) {
    return Record{.version = step << 1 | partition, .key = "key1", .value = value};
  };
  ASSERT_TRUE(backup_.Take(BatchOf({put(2, "a")}, 1, 0)).ok());
  const uint64_t used_bytes = b_.table().stats().used_bytes;
  const Record outcome = {.kind = Record::Kind::kOutcome, .session = 7, .number = 1};
  const std::string longer(3000, 'x');
  ASSERT_TRUE(backup_.Take(BatchOf({put(4, longer), outcome, put(6, "y")}, 2, 1)).ok());
  EXPECT_EQ(backup_.accepted(), 4u);
  backup_.EnterEpoch(kEpoch + 1, kPrimary);
  ASSERT_TRUE(backup_.Cut(1).ok());
  EXPECT_EQ(backup_.accepted(), 1u);
  EXPECT_EQ(b_.table().stats().used_bytes, used_bytes) << "their memory is given back";
  // Expect: the new primary's record replaces those that were discarded.
  ASSERT_TRUE(backup_.Take(BatchOf({put(4, "z")}, 2, 2, kEpoch + 1)).ok());
  EXPECT_EQ(b_.ReadKey("key1"), "z");
  EXPECT_EQ(backup_.outcomes().size(), 0u);
  // Expect: committed records cannot be discarded; a primary that lacks them is rejected.
  EXPECT_TRUE(absl::IsDataLoss(backup_.Cut(1)));
  EXPECT_TRUE(backup_.has_failed());
}

// Batches get lost, repeated and damaged.
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
      if (random() % 8 == 0) {
        request = MakeRequest(kCounterTypes[random() % 4], number, key);
        request.operands.operand = static_cast<int64_t>(random() % 10);
        if (request.type == RequestType::kCounterSwap) request.operands.desired = 5;
      }
      if (random() % 8 == 0) request = MakeRequest(RequestType::kTouch, number, key);
      if (kv::MayHaveTtl(request.type) && random() % 4 == 0) request = WithTtl(request, 1 + random() % 100);
      if (random() % 20 == 0) t_.clock.AdvanceMs(50);
      // A full window of requests at once.
      if (number % kTestWindow == 0) {
        Follow();
        Replicate();
        while (TestWorker::TakeReply(calls[who]).has_value()) continue;
      }
      numbers[who] = number;
      calls[who]->peer.Send(Encode(request));
      t_.PollAll();
      continue;
    }
    std::string batch = Next(random() % 500);
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
    // A connection that reported damage is replaced.
    if (!taken.ok() || random() % 4 == 0) Follow();
    ASSERT_TRUE(stream_.Accepted(feed_, {backup_.accepted()}).ok());
    t_.PollAll();
  }
  Follow();
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
  // The backup accepts the first write, and the primary stops before it replies.
  call->peer.Send(Encode(MakePut(5, "key2", "v", Condition::kAbsent)));
  call->peer.Send(Encode(MakePut(6, "key2", "w", Condition::kPresent)));
  t_.PollAll();
  ASSERT_TRUE(backup_.Take(Next(10'000)).ok());
  EXPECT_EQ(b_.ReadKey("key2"), std::nullopt);

  Succeed();
  EXPECT_EQ(b_.ReadKey("key2"), "v");
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
  // Expect: requests that were not accepted are executed now, with versions above all those of the former primary.
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

TEST_F(BackupTest, VersionsThatNoTableHasAreNotTaken) {
  const std::string batch = BatchOf({{.kind = Record::Kind::kVersions, .version = kv::kEndOfVersions}}, 1, 1);
  EXPECT_TRUE(absl::IsDataLoss(backup_.Take(batch)));
  EXPECT_LT(b_.table().NewestVersion(0), kv::kEndOfVersions);
}

TEST_F(BackupTest, WithoutRoomItAcceptsNoMore) {
  TestWorker small(16 << 20);
  Backup backup(&small.table(), &small.locks(), &small.clock, ServerTime(), kEpoch, kPrimary);
  const std::string value(1 << 20, 'v');
  absl::Status taken = absl::OkStatus();
  uint64_t sequence = 1;
  for (; taken.ok() && sequence < 100; ++sequence) {
    const std::string key = absl::StrCat("key", sequence);
    const uint64_t partition = static_cast<uint64_t>(small.table().PartitionOf(small.table().HashOf(key)));
    const Record put{.version = (sequence + 1) << 1 | partition, .key = key, .value = value};
    taken = backup.Take(BatchOf({put}, sequence, sequence));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(taken)) << taken;
  EXPECT_EQ(backup.accepted(), sequence - 2);
  EXPECT_EQ(backup.applied(), sequence - 2);
  EXPECT_TRUE(absl::IsResourceExhausted(backup.Take(BatchOf({}, sequence - 1, sequence - 2))));
}

// Publishing a record frees the item that it overwrites. A record without room waits for that; without a commit it is
// not accepted. Accepted records can still be promoted.
TEST_F(BackupTest, WithoutRoomItWaitsForACommit) {
  TestWorker small(16 << 20);
  Backup backup(&small.table(), &small.locks(), &small.clock, ServerTime(), kEpoch, kPrimary);
  const std::string value(1 << 20, 'v');
  const auto put = [&](uint64_t sequence, absl::string_view key) {
    const uint64_t partition = static_cast<uint64_t>(small.table().PartitionOf(small.table().HashOf(key)));
    return Record{.version = (sequence + 1) << 1 | partition, .key = key, .value = value};
  };
  uint64_t sequence = 0;
  while (backup.accepted() == sequence && sequence < 100) {
    ++sequence;
    ASSERT_TRUE(backup.Take(BatchOf({put(sequence, "key")}, sequence, 0)).ok());
  }
  ASSERT_LT(sequence, 100u);
  EXPECT_EQ(backup.accepted(), sequence - 1);
  EXPECT_EQ(backup.applied(), 0u);
  // Expect: later records wait behind it. A record that is sent again, after another connect, is not taken twice.
  ASSERT_TRUE(backup.Take(BatchOf({put(sequence + 1, "key")}, sequence + 1, 0)).ok());
  ASSERT_TRUE(backup.Take(BatchOf({put(sequence, "key")}, sequence, 0)).ok());
  EXPECT_EQ(backup.accepted(), sequence - 1);
  // Expect: a commit makes room for both.
  ASSERT_TRUE(backup.Take(BatchOf({}, sequence + 2, sequence - 1)).ok());
  EXPECT_EQ(backup.accepted(), sequence + 1);
  EXPECT_EQ(backup.applied(), sequence - 1);
  ASSERT_TRUE(backup.Promote().ok());
  EXPECT_EQ(backup.applied(), sequence + 1);
  EXPECT_EQ(small.table().stats().keys, 1u);
}

// A promoter's log is what it accepted.
TEST_F(BackupTest, WhatWaitsForRoomIsNotPromoted) {
  TestWorker small(16 << 20);
  Backup backup(&small.table(), &small.locks(), &small.clock, ServerTime(), kEpoch, kPrimary);
  const std::string value(1 << 20, 'v');
  uint64_t sequence = 0;
  while (backup.accepted() == sequence && sequence < 100) {
    const uint64_t partition = static_cast<uint64_t>(small.table().PartitionOf(small.table().HashOf("key")));
    ++sequence;
    const Record put{.version = (sequence + 1) << 1 | partition, .key = "key", .value = value};
    ASSERT_TRUE(backup.Take(BatchOf({put}, sequence, 0)).ok());
  }
  EXPECT_EQ(backup.stream().tail().size(), sequence - 1);
  ASSERT_TRUE(backup.Promote().ok());
  EXPECT_EQ(backup.accepted(), sequence - 1);
  EXPECT_EQ(backup.applied(), sequence - 1);
}

// The index has not grown for these records when the table has no memory left for items.
TEST_F(BackupTest, TheIndexHasRoomForWhatWasAccepted) {
  TestWorker small(16 << 20);
  Backup backup(&small.table(), &small.locks(), &small.clock, ServerTime(), kEpoch, kPrimary);
  uint64_t sequence = 0;
  while (backup.accepted() == sequence) {
    std::vector<Record> records;
    std::deque<std::string> keys;
    const uint64_t first = sequence + 1;
    for (int i = 0; i < 500; ++i) {
      const std::string& key = keys.emplace_back(absl::StrCat("key", ++sequence));
      const uint64_t partition = static_cast<uint64_t>(small.table().PartitionOf(small.table().HashOf(key)));
      records.push_back({.version = (sequence + 1) << 1 | partition, .key = key});
    }
    ASSERT_LT(sequence, 1'000'000u);
    ASSERT_TRUE(backup.Take(BatchOf(std::move(records), first, 0)).ok());
  }
  EXPECT_GT(backup.accepted(), 100'000u);
  EXPECT_EQ(backup.applied(), 0u);
  const absl::Status promoted = backup.Promote();
  EXPECT_TRUE(promoted.ok()) << promoted;
  EXPECT_EQ(backup.applied(), backup.accepted());
  EXPECT_EQ(small.table().stats().keys, backup.accepted());
}

// A backup holds what a full primary of the same size holds, in any order, with overwrites that are not committed.
TEST_F(BackupTest, HoldsWhatAFullPrimaryHolds) {
  TestWorker full(16 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &next_stream_);
  std::vector<Record> records;
  std::deque<std::string> keys, values;
  std::mt19937 random(1);
  const auto put = [&](absl::string_view key, size_t bytes) {
    const std::string& value = values.emplace_back(bytes, 'v');
    kv::WriteResult result;
    result.code = Code::kMakingRoom;
    while (result.code == Code::kMakingRoom) {
      result = full.table().Put(full.table().HashOf(key), key, value, Condition::kAlways, 0, 0);
    }
    if (result.code == Code::kOk) records.push_back({.version = result.version, .key = key, .value = value});
    return result.code;
  };
  do {
    keys.push_back(absl::StrCat("key", keys.size()));
  } while (put(keys.back(), 1 + random() % 6'000) == Code::kOk);
  const size_t items = records.size();
  EXPECT_GT(items, 3'000u);
  std::shuffle(records.begin(), records.end(), random);
  for (const Record& record : std::vector<Record>(records)) {
    ASSERT_EQ(put(record.key, record.value.size()), Code::kOk) << "an overwrite of a full table";
  }
  TestWorker other(16 << 20, 16, 100, 3, nullptr, kTestWindow, /*evict=*/false, &next_stream_);
  Backup backup(&other.table(), &other.locks(), &other.clock, ServerTime(), kEpoch, kPrimary);
  uint64_t committed = 0;
  for (size_t i = 0; i < records.size(); i += 50) {
    const std::vector<Record> some(records.begin() + static_cast<ptrdiff_t>(i),
                                   records.begin() + static_cast<ptrdiff_t>(std::min(i + 50, records.size())));
    const absl::Status taken = backup.Take(BatchOf(some, i + 1, committed));
    ASSERT_TRUE(taken.ok()) << i << " of " << records.size() << ": " << taken;
    committed = backup.accepted();
  }
  while (backup.accepted() < records.size()) {
    ASSERT_TRUE(backup.Take(BatchOf({}, records.size() + 1, backup.accepted())).ok());
  }
  ASSERT_TRUE(backup.Promote().ok());
  EXPECT_EQ(other.table().stats().keys, items);
}

// Most likely the primary's index had no place for it either: then its next record of the key undoes the put.
TEST_F(BackupTest, WhatThePrimaryUndoesNeedsNoPlace) {
  const uint64_t partition = static_cast<uint64_t>(b_.table().PartitionOf(b_.table().HashOf("key1")));
  const Record put{.session = 7, .number = 1, .version = 2 << 1 | partition, .key = "key1", .value = "v"};
  const Record undo{
      .kind = Record::Kind::kDelete, .session = 7, .number = 1, .outcome = Code::kIndexFull, .key = "key1"};
  ASSERT_TRUE(backup_.Take(BatchOf({put, undo}, 1, 2)).ok());
  EXPECT_EQ(b_.ReadKey("key1"), std::nullopt);
  EXPECT_EQ(backup_.outcomes().sessions().front().replies.front().code, Code::kIndexFull);
  EXPECT_TRUE(backup_.Promote().ok());
}

TEST_F(BackupTest, AnItemsFlagsAreThePrimarys) {
  FakeCall* call = t_.Connect();
  char options[kv::RequestOptions::kMaxBytes];
  kv::RequestOptions keep;
  keep.item_flags = kv::RequestOptions::kKeep;
  kv::Request put = MakePut(1, "key1", "v");
  put.options = {options, keep.Encode(options)};
  ASSERT_EQ(Do(call, put).code, Code::kOk);
  Do(call, MakePut(2, "key2", "v"));
  kv::ItemView item;
  ASSERT_EQ(b_.table().Get(b_.table().HashOf("key1"), "key1", &item).code, Code::kOk);
  EXPECT_EQ(item.flags, kv::kKeepItem);
  ASSERT_EQ(b_.table().Get(b_.table().HashOf("key2"), "key2", &item).code, Code::kOk);
  EXPECT_EQ(item.flags, 0);
}

TEST_F(BackupTest, ALaterConnectionTakesTheFormersPlace) {
  const FeedId former = feed_;
  Follow();
  FakeCall* call = t_.Connect();
  call->peer.Send(Encode(MakePut(1, "key1", "v")));
  t_.PollAll();
  EXPECT_TRUE(absl::IsAborted(stream_.NextBatch(former, 1000, 0, true).status()));
  EXPECT_TRUE(stream_.Accepted(former, {1}).ok()) << "it may have been on its way";
  EXPECT_EQ(stream_.committed(), 0u);
  ASSERT_TRUE(backup_.Take(Next(10'000)).ok());
  ASSERT_TRUE(stream_.Accepted(feed_, {backup_.accepted()}).ok());
  EXPECT_EQ(stream_.committed(), stream_.last());
}

// The backup has a clock of its own, unknown to the primary.
TEST_F(BackupTest, ExpiryIsRemainingTime) {
  b_.clock.AdvanceMs(100'000);
  FakeCall* call = t_.Connect();
  Do(call, WithTtl(MakePut(1, "key1", "v"), 5000));
  const kv::ItemView item = MustHave(b_, "key1");
  EXPECT_GE(item.expiry_ms, b_.ShownTime() / 1000 + 5000);
  EXPECT_LE(item.expiry_ms, b_.ShownTime() / 1000 + 5002);
  // Expect: the item stays until a record removes it, whatever the backup's clock shows.
  b_.clock.AdvanceMs(100'000);
  EXPECT_NE(ItemIn(b_, "key1"), "");
}

TEST_F(BackupTest, TouchesAndTheEndsOfItemsAreRecords) {
  b_.clock.AdvanceMs(77'000);
  FakeCall* call = t_.Connect();
  const uint64_t version = Do(call, WithTtl(MakePut(1, "key1", "v"), 5000)).version;
  Do(call, WithTtl(MakePut(2, "key2", "v"), 20));
  const TestReply touch = Do(call, WithTtl(MakeRequest(RequestType::kTouch, 3, "key1"), 9000));
  EXPECT_EQ(touch.code, Code::kOk);
  EXPECT_EQ(touch.version, version);
  EXPECT_GE(MustHave(b_, "key1").expiry_ms, b_.ShownTime() / 1000 + 9000);
  EXPECT_LE(MustHave(b_, "key1").expiry_ms, b_.ShownTime() / 1000 + 9002);
  Do(call, MakeRequest(RequestType::kTouch, 4, "key1"));
  EXPECT_EQ(MustHave(b_, "key1").expiry_ms, 0u) << "for ever";
  t_.clock.AdvanceMs(30);
  call->peer.Send(Encode(MakeRequest(RequestType::kGet, 5, "key2")));
  for (int i = 0; i < 3; ++i) Replicate();
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kNotFound);
  EXPECT_EQ(ItemIn(b_, "key2"), "");
  EXPECT_EQ(b_.table().stats().expired_items, 1u);
  ExpectSameTables();
}

// The next primary's clock may be behind: an item that was reported expired must not reappear.
TEST_F(BackupTest, WhatWasToldToHaveExpiredIsGoneAtTheNextPrimary) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  Do(call, WithTtl(MakePut(1, "key1", "v"), 20));
  Do(call, WithTtl(MakePut(2, "key2", "v"), 20));
  t_.clock.AdvanceMs(30);
  call->peer.Send(Encode(MakeRequest(RequestType::kGet, 3, "key1")));
  for (int i = 0; i < 3; ++i) Replicate();
  ASSERT_EQ(TestWorker::TakeReply(call)->code, Code::kNotFound);
  Succeed();  // its clock has not reached the expiry
  FakeCall* next = b_.Call(hello);
  b_.PollAll();
  EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kGet, 4, "key1"))->code, Code::kNotFound);
  EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kGet, 5, "key2"))->code, Code::kOk) << "nobody was told";
  // Expect: here it expires by this clock, and the sweep finds it.
  b_.clock.AdvanceMs(30);
  EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kGet, 6, "key2"))->code, Code::kNotFound);
}

TEST_F(BackupTest, ItsSuccessorSweepsWhatItWasTold) {
  FakeCall* call = t_.Connect();
  for (uint64_t i = 1; i <= 10; ++i) Do(call, WithTtl(MakePut(i, absl::StrCat("key", i), "v"), 20));
  EXPECT_EQ(b_.table().stats().keys, 10u);
  Succeed();
  for (int i = 0; i < 100; ++i) {
    b_.clock.AdvanceMs(50);
    b_.PollAll();
  }
  EXPECT_EQ(b_.table().stats().keys, 0u);
  EXPECT_EQ(b_.table().stats().expired_items, 10u);
}

// An add that creates a counter with a ttl reaches every table, and is executed once even if its reply was lost with
// the primary.
TEST_F(BackupTest, AnAddThatCreatesIsDoneOnce) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  kv::RequestOptions asked;
  asked.create = asked.has_ttl = true;
  asked.initial = 40;
  asked.ttl_us = 50'000'000;
  char options[kv::RequestOptions::kMaxBytes];
  kv::Request add = MakeRequest(RequestType::kCounterAdd, 1, "key1");
  add.options = {options, asked.Encode(options)};
  add.operands.operand = 2;
  EXPECT_EQ(Do(call, add).counter.value, 40);
  ExpectSameTables();
  // This one is accepted, and the primary stops before it replies.
  add.number = 2;
  add.key = "key2";
  call->peer.Send(Encode(add));
  t_.PollAll();
  ASSERT_TRUE(backup_.Take(Next(10'000)).ok());
  Succeed();
  FakeCall* next = b_.Call(hello);
  b_.PollAll();
  EXPECT_EQ(b_.Ask(next, add)->counter.value, 40);
  for (const char* key : {"key1", "key2"}) {
    const uint64_t number = key[3] == '1' ? 3 : 4;
    EXPECT_EQ(b_.Ask(next, MakeRequest(RequestType::kCounterRead, number, key))->counter.value, 42);
    kv::ItemView item;
    ASSERT_EQ(b_.table().Get(b_.table().HashOf(key), key, &item).code, Code::kOk);
    EXPECT_NE(item.expiry_ms, 0u);
  }
}

TEST_F(BackupTest, CountersAreWhatTheyWereAndEachStepIsDoneOnce) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  const auto counter = [](RequestType type, uint64_t number, int64_t operand = 0, int64_t desired = 0) {
    kv::Request request = MakeRequest(type, number, "key1");
    request.operands = {operand, desired};
    return request;
  };
  EXPECT_EQ(Do(call, counter(RequestType::kCounterCreate, 1, 40)).counter.value, 40);
  EXPECT_EQ(Do(call, counter(RequestType::kCounterAdd, 2, -50)).counter.value, 40);
  EXPECT_EQ(Do(call, counter(RequestType::kCounterSwap, 3, 7, 9)).counter.value, -10) << "it expected another";
  const int64_t top = kv::kCounterEnd - 1;
  EXPECT_EQ(Do(call, counter(RequestType::kCounterSwap, 4, -10, top)).counter.value, -10);
  EXPECT_EQ(Do(call, counter(RequestType::kCounterAdd, 5, 100)).code, Code::kOutOfRange);
  EXPECT_EQ(Do(call, MakePut(6, "key1", "v")).code, Code::kWrongKind);
  ExpectSameTables();
  // This one is accepted, and the primary stops before it replies.
  call->peer.Send(Encode(counter(RequestType::kCounterAdd, 7, -5)));
  t_.PollAll();
  ASSERT_TRUE(backup_.Take(Next(10'000)).ok());
  Succeed();
  FakeCall* next = b_.Call(hello);
  b_.PollAll();
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterAdd, 7, -5))->counter.value, top);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterCreate, 1, 40))->counter.value, 40);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterSwap, 3, 7, 9))->counter.value, -10);
  const TestReply refused = *b_.Ask(next, counter(RequestType::kCounterAdd, 5, 100));
  EXPECT_EQ(refused.code, Code::kOutOfRange);
  EXPECT_EQ(refused.counter.value, top);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterRead, 8))->counter.value, top - 5);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterAdd, 9, 3))->counter.value, top - 5);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterDelete, 10))->counter.value, top - 2);
  EXPECT_EQ(b_.Ask(next, counter(RequestType::kCounterRead, 11))->code, Code::kNotFound);
}

TEST_F(BackupTest, APrimaryWithoutMembersAnswersAtOnce) {
  stream_.SetMembers({});
  FakeCall* call = t_.Connect();
  EXPECT_EQ(t_.Ask(call, MakePut(1, "key1", "v"))->code, Code::kOk);
  EXPECT_EQ(t_.Ask(call, MakeRequest(RequestType::kGet, 2, "key1"))->payload, "v");
}

TEST_F(BackupTest, OnlyItsClientGoesOnWithASession) {
  FakeCall* call = t_.Connect();
  const kv::Hello hello = TestWorker::HelloAfter(call);
  Do(call, MakePut(1, "key1", "v"));
  // Expect: a client that writes over another connection has proved that it knows the next epoch.
  call->peer.Break();
  t_.PollAll();
  FakeCall* second = t_.Call(hello);
  t_.PollAll();
  kv::Hello later = TestWorker::HelloAfter(second);
  Do(second, MakePut(2, "key1", "w"));
  Succeed();
  const auto resumes = [this](const kv::Hello& as) {
    FakeCall* next = b_.Call(as);
    b_.PollAll();
    return (TestWorker::WelcomeOf(next).flags & kv::Welcome::kResumed) != 0;
  };
  EXPECT_GT(later.epoch, hello.epoch);
  EXPECT_FALSE(resumes(hello)) << "an epoch of the past";
  kv::Hello reader = later;
  reader.flags = kv::Hello::kReadOnly;
  EXPECT_FALSE(resumes(reader)) << "it wrote";
  EXPECT_TRUE(resumes(later));
}

}  // namespace
}  // namespace farlook::server
