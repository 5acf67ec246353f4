// A giving and a taking group in one thread: checks what the taker's table holds in the end.
#include "server/replication/slot_importer.h"

#include <map>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cluster/batch_testing.h"
#include "gtest/gtest.h"
#include "kv/layout/sanitized.h"
#include "server/replication/group_stream.h"
#include "server/replication/serving.h"
#include "server/replication/slot_cleaner.h"
#include "server/replication/snapshot_sender.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

constexpr uint64_t kEpoch = 4, kGiver = kTestIncarnation, kTaker = 91, kMove = 5;
constexpr size_t kRegionBytes = 32 << 20;

// A group with one member.
struct OneGroup {
  explicit OneGroup(uint64_t incarnation)
      : stream(kEpoch, incarnation, 1, {}, 1 << 20),
        t(kRegionBytes, 100, 100, 3, nullptr, kTestWindow, /*evict=*/false, &stream, 0, nullptr,
          [this](Shared* shared) { shared->serving = &serving; }) {
    stream.SetMembers({});
    t.gate().SetServing(&serving);
    serving.SetSlots(kv::SlotSet());
    serving.Set(true);
  }
  // Returns the items of these slots.
  std::map<std::string, std::string> Items(const kv::SlotSet& slots) {
    std::map<std::string, std::string> items;
    for (int partition = 0; partition < t.table().partitions(); ++partition) {
      kv::WalkPlace place;
      while (t.table().Walk(partition, &place, 100, [&](uint64_t hash, const kv::ItemView& item) {
        if (!slots[kv::ClusterSlotOf(hash)]) return;
        items[std::string(item.key)] =
            absl::StrCat(item.version, " ", item.expiry_ms, " ", static_cast<int>(item.kind), " ", item.value);
      })) {
      }
    }
    return items;
  }
  void Erase(const kv::SlotSet& slots) {
    SlotCleaner eraser(&t.table(), &t.locks(), &t.gate(), slots);
    for (int i = 0; i < 100'000; ++i) {
      if (eraser.Step(16) == SlotCleaner::Progress::kDone) break;
      t.PollAll();
    }
    t.PollAll();
  }

  Serving serving;
  GroupStream stream;
  TestWorker t;
};

class SlotImporterTest : public ::testing::Test {
 protected:
  SlotImporterTest() {
    for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) moving_[slot] = slot % 3 == 0;
    all_.set();
    giver_.serving.SetSlots(all_);
    taker_.serving.SetSlots(~all_);
  }

  size_t SlotOf(absl::string_view key) { return kv::ClusterSlotOf(giver_.t.table().HashOf(key)); }
  // Returns the key of index `number` among those that move, or do not.
  std::string Key(bool moves, int number = 0) {
    for (int i = 0;; ++i) {
      std::string key = absl::StrCat("key", i);
      if (moving_[SlotOf(key)] == moves && number-- == 0) return key;
    }
  }
  void Send(FakeCall* call, kv::Request request) {
    request.number = ++numbers_[call];
    call->peer.Send(Encode(request));
    giver_.t.PollAll();
  }
  Code Do(FakeCall* call, const kv::Request& request) {
    Send(call, request);
    return TestWorker::TakeReply(call)->code;
  }
  // Makes the taker follow the giver.
  void Begin() {
    const auto admitted = giver_.stream.Admit(
        {.incarnation = kTaker, .epoch = kEpoch, .address = "fake://taker", .move = kMove, .taker = "other"});
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    feed_ = *admitted;
    const absl::StatusOr<uint64_t> from = giver_.stream.Begin(kTaker);
    ASSERT_TRUE(from.ok()) << from.status();
    refill_ = std::make_unique<SnapshotSender>(&giver_.t.table(), &giver_.t.locks(), &giver_.t.gate(), *from, &moving_);
    adopter_ = std::make_unique<SlotImporter>(
        SlotImporter::Parts{&taker_.t.table(), &taker_.t.locks(), &taker_.t.clock, ServerTime(), &taker_.t.gate()},
        moving_, kGiver, *from);
  }
  // Takes a batch, if there is one.
  bool Take(size_t most_bytes = 2000) {
    const std::string batch = cluster::BytesOf(*giver_.stream.NextBatch(feed_, most_bytes, giver_.t.ShownTime(), true));
    if (batch.empty()) return false;
    const absl::Status taken = adopter_->Take(batch);
    EXPECT_TRUE(taken.ok()) << taken;
    return true;
  }
  bool Pump() {
    const bool did = adopter_->Pump();
    taker_.t.PollAll();
    EXPECT_TRUE(giver_.stream.Accepted(feed_, {adopter_->accepted()}).ok());
    return did;
  }
  void Finish() {
    for (int i = 0; i < 100'000 && refill_->Step(64) != SnapshotSender::Progress::kDone; ++i) {
      Take();
      Pump();
      giver_.t.PollAll();
    }
    while (Take() || Pump()) giver_.t.PollAll();
    ASSERT_EQ(refill_->Step(1), SnapshotSender::Progress::kDone);
    ASSERT_EQ(adopter_->accepted(), giver_.stream.last());
  }

  kv::SlotSet moving_, all_;
  OneGroup giver_{kGiver};
  OneGroup taker_{kTaker};
  FeedId feed_;
  std::unique_ptr<SnapshotSender> refill_;
  std::unique_ptr<SlotImporter> adopter_;
  std::map<FakeCall*, uint64_t> numbers_;
};

TEST_F(SlotImporterTest, TheTakerHasTheItemsOfTheSlotsAndNoOthers) {
  FakeCall* call = giver_.t.Connect();
  for (int i = 0; i < 3000; ++i) {
    const std::string key = absl::StrCat("key", i), value(i % 100, 'v');
    ASSERT_EQ(Do(call, MakePut(0, key, value)), Code::kOk);
  }
  Begin();
  Finish();
  const auto items = giver_.Items(moving_);
  EXPECT_NEAR(static_cast<double>(items.size()), 1000, 160);
  EXPECT_EQ(taker_.Items(all_), items);
  EXPECT_EQ(adopter_->items(), items.size());
  EXPECT_EQ(refill_->copies(), items.size());
}

// A walk of the table does not meet its key, which has no item yet.
TEST_F(SlotImporterTest, WhatAFormerAttemptHasUnderWayIsErasedToo) {
  ASSERT_EQ(Do(giver_.t.Connect(), MakePut(0, Key(true), "value")), Code::kOk);
  constexpr uint64_t kBackup = 77;
  taker_.stream.SetMembers({kBackup});  // which accepts nothing
  Begin();
  while (refill_->Step(64) != SnapshotSender::Progress::kDone) {
  }
  while (Take()) Pump();
  ASSERT_LT(adopter_->accepted(), giver_.stream.last());
  adopter_.reset();
  SlotCleaner eraser(&taker_.t.table(), &taker_.t.locks(), &taker_.t.gate(), moving_);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(eraser.Step(1000), SlotCleaner::Progress::kWaits);
    taker_.t.PollAll();
  }
  taker_.stream.SetMembers({});
  taker_.t.PollAll();
  EXPECT_EQ(taker_.Items(moving_).size(), 1u);
  while (eraser.Step(1000) != SlotCleaner::Progress::kDone) taker_.t.PollAll();
  taker_.t.PollAll();
  EXPECT_TRUE(taker_.Items(moving_).empty());
}

// The taker's clients get kMoved for the keys until it owns their slots.
TEST_F(SlotImporterTest, TheTakersClientsHearThatTheKeyIsAnothersUntilTheSlotsAreItsOwn) {
  FakeCall* call = giver_.t.Connect();
  const std::string key = Key(true);
  ASSERT_EQ(Do(call, MakePut(0, key, "value")), Code::kOk);
  Begin();
  Finish();
  FakeCall* other = taker_.t.Connect();
  other->peer.Send(Encode(MakeRequest(RequestType::kGet, 1, key)));
  taker_.t.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kMoved);
  taker_.serving.SetSlots(moving_);
  other->peer.Send(Encode(MakeRequest(RequestType::kGet, 2, key)));
  taker_.t.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(other)->code, Code::kOk);
  // Expect: a write at the taker has a version above all those of the giver.
  const uint64_t version = std::stoull(giver_.Items(moving_).at(key));
  other->peer.Send(Encode(MakePut(3, key, "next", kv::Condition::kVersion, version)));
  taker_.t.PollAll();
  const TestReply reply = *TestWorker::TakeReply(other);
  EXPECT_EQ(reply.code, Code::kOk);
  EXPECT_GT(reply.version, version);
}

TEST_F(SlotImporterTest, WritesGoOnMeanwhileAndTheSlotsAreEqualInTheEnd) {
  for (uint64_t seed = 1; seed <= (kv::kSanitized ? 3 : 10); ++seed) {
    std::mt19937_64 random(seed);
    std::vector<FakeCall*> calls = {giver_.t.Connect(), giver_.t.Connect(), giver_.t.Connect()};
    const auto write = [&] {
      FakeCall* call = calls[random() % calls.size()];
      const std::string key = absl::StrCat("key", random() % 3 == 0 ? random() % 9 : random() % 4000);
      const std::string value(random() % 200, static_cast<char>('a' + random() % 26));
      kv::Request request = MakePut(0, key, value);
      if (const uint64_t kind = random() % 12; kind < 3) {
        request = MakeRequest(RequestType::kDelete, 0, key);
      } else if (kind == 3) {
        request = MakeRequest(RequestType::kTouch, 0, key);
      } else if (kind < 6) {
        request = MakeRequest(kind == 4 ? RequestType::kCounterCreate : RequestType::kCounterAdd, 0, key);
        request.operands.operand = 1;
      }
      if (kv::MayHaveTtl(request.type) && random() % 4 == 0) request = WithTtl(request, 1 + random() % 3000);
      if (random() % 50 == 0) {
        giver_.t.clock.AdvanceMs(1);
        taker_.t.clock.AdvanceMs(1);
      }
      Send(call, request);
      giver_.t.PollAll();
      while (TestWorker::TakeReply(call).has_value()) continue;
    };
    for (int i = 0; i < 3000; ++i) write();
    Begin();
    taker_.Erase(moving_);
    for (int i = 0; i < 3000; ++i) {
      if (random() % 4 == 0) write();
      if (random() % 2 == 0) Take(random() % 3000);
      if (random() % 2 == 0) Pump();
      refill_->Step(random() % 20);
    }
    Finish();
    const auto items = giver_.Items(moving_);
    EXPECT_GT(items.size(), 200u);
    ASSERT_EQ(taker_.Items(all_), items) << "seed " << seed;
    giver_.stream.Forget(kTaker);
    for (FakeCall* call : calls) call->peer.Break();
    giver_.t.PollAll();
    numbers_.clear();
  }
}

// A key is written faster than this group's backup accepts: only the merged result is written.
TEST_F(SlotImporterTest, OfAKeyThatIsWrittenAgainAndAgainNotEachRecordIsCarriedOut) {
  FakeCall* call = giver_.t.Connect();
  const std::string hot = Key(true), touched = Key(true, 1), gone = Key(true, 2), other = Key(true, 3);
  Begin();
  taker_.stream.SetMembers({77});  // which accepts nothing yet
  for (int i = 0; i < 100; ++i) {
    const std::string value = absl::StrCat("value", i);
    for (const std::string& key : {hot, touched, gone}) ASSERT_EQ(Do(call, MakePut(0, key, value)), Code::kOk);
    ASSERT_EQ(Do(call, WithTtl(MakeRequest(RequestType::kTouch, 0, touched), 1'000'000)), Code::kOk);
    ASSERT_EQ(Do(call, MakeRequest(RequestType::kDelete, 0, gone)), Code::kOk);
  }
  ASSERT_EQ(Do(call, MakePut(0, other, "value")), Code::kOk);
  while (Take() || Pump()) continue;
  EXPECT_EQ(adopter_->accepted(), 1u) << "whose the session is";
  EXPECT_EQ(taker_.stream.last(), 5u)
      << "the first record of each key, none of which waits for another one's, and the versions of those passed over";
  taker_.stream.SetMembers({});
  Finish();
  EXPECT_LE(taker_.stream.last(), 10u + refill_->copies());
  EXPECT_EQ(taker_.Items(all_), giver_.Items(moving_));
}

// This includes versions of items deleted before the taker connected, and of records that were merged away.
TEST_F(SlotImporterTest, TheTakerUsesNoVersionOfTheGiver) {
  FakeCall* call = giver_.t.Connect();
  const std::string before = Key(true), meanwhile = Key(true, 1);
  uint64_t last = 0;
  const auto put_and_delete = [&](const std::string& key) {
    for (int i = 0; i < 50; ++i) {
      Send(call, MakePut(0, key, "value"));
      last = TestWorker::TakeReply(call)->version;
      ASSERT_EQ(Do(call, MakeRequest(RequestType::kDelete, 0, key)), Code::kOk);
    }
  };
  put_and_delete(before);
  const uint64_t last_before = last;
  Begin();
  Finish();
  put_and_delete(meanwhile);
  Finish();
  taker_.serving.SetSlots(all_);
  FakeCall* next = taker_.t.Connect();
  EXPECT_GT(taker_.t.Ask(next, MakePut(1, before, "value"))->version, last_before);
  EXPECT_GT(taker_.t.Ask(next, MakePut(2, meanwhile, "value"))->version, last);
}

// Otherwise its keys could never be written again, and no joiner of the taker's group be filled.
TEST_F(SlotImporterTest, WhatAnAttemptHadBegunWhenItEndedIsEndedByOthers) {
  FakeCall* call = giver_.t.Connect();
  const std::string key = Key(true);
  Begin();
  taker_.stream.SetMembers({77});  // which accepts nothing yet
  ASSERT_EQ(Do(call, MakePut(0, key, "value")), Code::kOk);
  while (Take() || Pump()) continue;
  const uint64_t hash = taker_.t.table().HashOf(key);
  EXPECT_TRUE(taker_.t.gate().Busy(hash));
  adopter_.reset();
  EXPECT_TRUE(taker_.t.gate().Busy(hash));
  taker_.stream.SetMembers({});
  taker_.t.PollAll();
  EXPECT_FALSE(taker_.t.gate().Busy(hash));
}

// Items that an attempt copied are deleted at the giver before the next attempt.
TEST_F(SlotImporterTest, AnAttemptBeginsWithoutWhatAFormerOneLeft) {
  FakeCall* call = giver_.t.Connect();
  const auto key = [](int i) { return absl::StrCat("key", i); };
  for (int i = 0; i < 500; ++i) ASSERT_EQ(Do(call, MakePut(0, key(i), "old")), Code::kOk);
  Begin();
  Finish();
  giver_.stream.Forget(kTaker);
  for (int i = 0; i < 250; ++i) ASSERT_EQ(Do(call, MakeRequest(RequestType::kDelete, 0, key(i))), Code::kOk);
  Begin();
  taker_.Erase(moving_);
  EXPECT_TRUE(taker_.Items(all_).empty());
  Finish();
  EXPECT_EQ(taker_.Items(all_), giver_.Items(moving_));
}

// It may have expired by the taker's clock while a client of the giver extends its life.
TEST_F(SlotImporterTest, NothingExpiresAtTheTakerBeforeTheSlotsAreItsOwn) {
  FakeCall* call = giver_.t.Connect();
  const std::string key = Key(true);
  ASSERT_EQ(Do(call, WithTtl(MakePut(0, key, "value"), 1000)), Code::kOk);
  Begin();
  Finish();
  taker_.t.worker().NoteExpiry();
  taker_.t.clock.AdvanceMs(10'000);
  for (int i = 0; i < 100; ++i) {
    taker_.t.clock.AdvanceMs(600);
    taker_.t.PollAll();
  }
  EXPECT_EQ(taker_.Items(moving_).size(), 1u);
  ASSERT_EQ(Do(call, WithTtl(MakeRequest(RequestType::kTouch, 0, key), 0)), Code::kOk);
  Finish();
  EXPECT_EQ(taker_.Items(moving_), giver_.Items(moving_));
  // Expect: once the taker owns it, the sweep removes it.
  ASSERT_EQ(Do(call, WithTtl(MakeRequest(RequestType::kTouch, 0, key), 1000)), Code::kOk);
  Finish();
  taker_.serving.SetSlots(moving_);
  taker_.t.worker().NoteExpiry();
  for (int i = 0; i < 100; ++i) {
    taker_.t.clock.AdvanceMs(600);
    taker_.t.PollAll();
  }
  EXPECT_TRUE(taker_.Items(moving_).empty());
}

// The giver's epoch changes when it adds a backup; its stream continues.
TEST_F(SlotImporterTest, AnotherEpochOfTheSameGiverIsTheSameStream) {
  FakeCall* call = giver_.t.Connect();
  Begin();
  ASSERT_EQ(Do(call, MakePut(0, Key(true), "one")), Code::kOk);
  Finish();
  giver_.stream.EnterEpoch(kEpoch + 1);
  ASSERT_EQ(Do(call, MakePut(0, Key(true, 1), "two")), Code::kOk);
  Finish();
  EXPECT_EQ(taker_.Items(all_).size(), 2u);
}

TEST_F(SlotImporterTest, WhatIsTornOrAnothersIsNotTaken) {
  FakeCall* call = giver_.t.Connect();
  Begin();
  ASSERT_EQ(Do(call, MakePut(0, Key(true), "one")), Code::kOk);
  std::string batch = cluster::BytesOf(*giver_.stream.NextBatch(feed_, 2000, 0, true));
  std::string torn = batch;
  torn.back() = static_cast<char>(torn.back() ^ 1);
  EXPECT_TRUE(absl::IsInvalidArgument(adopter_->Take(torn)));
  EXPECT_TRUE(absl::IsInvalidArgument(adopter_->Take("")));
  SlotImporter other({&taker_.t.table(), &taker_.t.locks(), &taker_.t.clock, ServerTime(), &taker_.t.gate()}, moving_,
                     kGiver + 1, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.Take(batch)));
  EXPECT_TRUE(adopter_->Take(batch).ok());
  EXPECT_TRUE(absl::IsDataLoss(adopter_->Cut(0)));
}

TEST_F(SlotImporterTest, VersionsThatNoTableHasAreNotTaken) {
  FakeCall* call = giver_.t.Connect();
  ASSERT_EQ(Do(call, MakePut(0, Key(true), "one")), Code::kOk);
  Begin();
  giver_.stream.Append({.kind = cluster::Record::Kind::kVersions, .version = kv::kEndOfVersions});
  ASSERT_TRUE(Take());
  Pump();
  EXPECT_TRUE(absl::IsDataLoss(adopter_->failed())) << adopter_->failed();
  EXPECT_LT(taker_.t.table().NewestVersion(0), kv::kEndOfVersions);
}

TEST_F(SlotImporterTest, ATakerWithoutRoomSaysSo) {
  const std::string value(1000, 'v');
  // Items of its own leave little room.
  taker_.serving.SetSlots(all_);
  FakeCall* own = taker_.t.Connect();
  for (uint64_t i = 1; i <= 24'000; ++i) {
    own->peer.Send(Encode(MakePut(i, absl::StrCat("own", i), value)));
    taker_.t.PollAll();
    ASSERT_EQ(TestWorker::TakeReply(own)->code, Code::kOk) << i;
  }
  taker_.serving.SetSlots(~all_);
  FakeCall* call = giver_.t.Connect();
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = absl::StrCat("key", i);
    ASSERT_EQ(Do(call, MakePut(0, key, value)), Code::kOk);
  }
  Begin();
  for (int i = 0; i < 100'000 && adopter_->failed().ok(); ++i) {
    refill_->Step(64);
    Take();
    Pump();
    giver_.t.PollAll();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(adopter_->failed())) << adopter_->failed();
  EXPECT_LT(adopter_->accepted(), giver_.stream.last());
}

// The put that could not be published was undone: the end of the attempt does not end it again.
TEST_F(SlotImporterTest, ATakerWhoseIndexHasNoPlaceSaysSoAndLeavesNothing) {
  CommitGate& gate = taker_.t.gate();
  const std::string key = Key(true);
  const uint64_t hash = taker_.t.table().HashOf(key);
  taker_.serving.SetSlots(all_);
  CommitGate::Begun begun;
  for (uint64_t i = 1; begun.outcome.code == Code::kOk; ++i) {
    begun = gate.Begin(MakePut(i, absl::StrCat("other", i), "v"), hash, {7, i}, /*may_step=*/true, nullptr);
    ASSERT_NE(begun.sequence, 0u);
    while (!gate.End(hash, &begun, nullptr)) continue;
  }
  ASSERT_EQ(begun.outcome.code, Code::kIndexFull);
  taker_.serving.SetSlots(~all_);
  Begin();
  ASSERT_EQ(Do(giver_.t.Connect(), MakePut(0, key, "value")), Code::kOk);
  for (int i = 0; i < 1000 && adopter_->failed().ok(); ++i) {
    Take();
    Pump();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(adopter_->failed())) << adopter_->failed();
  EXPECT_FALSE(gate.Busy(hash));
  adopter_.reset();
  taker_.t.PollAll();
  EXPECT_FALSE(gate.Busy(hash));
}

// ---- The giver's end: closed slots.

TEST_F(SlotImporterTest, OfAClosedSlotNothingBeginsAndWhatIsUnderWayEnds) {
  FakeCall* call = giver_.t.Connect();
  const std::string key = Key(true), other = Key(false);
  ASSERT_EQ(Do(call, MakePut(0, key, "value")), Code::kOk);
  giver_.stream.SetMembers({77});  // which accepts nothing yet
  Send(call, MakePut(0, key, "next"));
  EXPECT_TRUE(giver_.t.gate().HasPending(moving_));
  EXPECT_FALSE(giver_.t.gate().HasPending(~moving_));
  giver_.serving.SetSlots(~moving_);
  Send(call, MakePut(0, key, "late"));
  EXPECT_EQ(TestWorker::TakeReply(call)->code, Code::kMoved);
  giver_.stream.SetMembers({});
  giver_.t.PollAll();
  const TestReply reply = *TestWorker::TakeReply(call);
  EXPECT_EQ(reply.number, 2u);
  EXPECT_EQ(reply.code, Code::kOk);
  EXPECT_FALSE(giver_.t.gate().HasPending(moving_));
  ASSERT_EQ(Do(call, MakePut(0, other, "goes on")), Code::kOk);
  // Expect: a retry of a finished request gets its outcome, although the key belongs to another group.
  call->peer.Send(Encode([&] {
    kv::Request again = MakePut(2, key, "next");
    return again;
  }()));
  giver_.t.PollAll();
  EXPECT_EQ(TestWorker::TakeReply(call)->version, reply.version);
}

// The gate checks under the lock of the key's partition: a request that passed the worker's check is refused as well.
TEST_F(SlotImporterTest, TheGateItselfRefusesWhatIsAnotherGroups) {
  const std::string key = Key(true);
  const uint64_t hash = giver_.t.table().HashOf(key);
  giver_.serving.SetSlots(~moving_);
  const kv::Request put = MakePut(1, key, "value");
  EXPECT_EQ(giver_.t.gate().Begin(put, hash, {1, 1}, /*may_step=*/false, nullptr).outcome.code, Code::kMoved);
  kv::Request read = MakeRequest(RequestType::kCounterRead, 2, key);
  EXPECT_EQ(giver_.t.gate().ReadCounter(read, hash, nullptr).outcome.code, Code::kMoved);
  kv::Reservation reservation;
  {
    kv::LockedPartition lock(giver_.t.locks().of(hash));
    ASSERT_EQ(giver_.t.table().Reserve(hash, key, 100, &reservation, 0), Code::kOk);
    EXPECT_EQ(giver_.t.gate().BeginReserved(reservation, kv::PutParams{}, {1, 3}, /*may_step=*/true).outcome.code,
              Code::kMoved);
  }
  EXPECT_EQ(giver_.stream.last(), 0u);
}

}  // namespace
}  // namespace farlook::server
