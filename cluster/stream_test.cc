#include "cluster/stream.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "cluster/batch_testing.h"
#include "cluster/record.h"
#include "gtest/gtest.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/item.h"
#include "kv/wire/message.h"

namespace farlook::cluster {
namespace {

constexpr size_t kPlenty = 1 << 20;

bool Room(const Record&) { return true; }

Record Put(absl::string_view key, absl::string_view value) { return {.key = key, .value = value}; }

TEST(Batch, GoldenBytesAndBack) {
  std::vector<Record> records;
  records.push_back({.sequence = 7,
                     .kind = Record::Kind::kPut,
                     .session = 1,
                     .number = 2,
                     .outcome = static_cast<kv::Code>(4),
                     .result = 8,
                     .version = 9,
                     .expires_ms = 10,
                     .flags = 1,
                     .item_kind = kv::ItemKind::kCounter,
                     .key = "key",
                     .value = "8 bytes."});
  records.push_back({.sequence = 8, .kind = Record::Kind::kDelete, .key = "k"});
  const std::string bytes = EncodeBatch({.epoch = 3, .primary = 5, .commit = 6, .first = 7, .clock_us = 11}, records);
  EXPECT_EQ(absl::BytesToHexString(bytes.substr(8)),
            "0300000000000000"
            "0500000000000000"
            "0600000000000000"
            "0700000000000000"
            "0200000088000000"
            "0b00000000000000"
            "0100000000000000"
            "0200000000000000"
            "0800000000000000"
            "0900000000000000"
            "0a00000000000000"
            "0800000003000104"
            "0101000000000000"
            "6b65793820627974"
            "65732e0000000000"
            "0000000000000000"
            "0000000000000000"
            "0000000000000000"
            "0000000000000000"
            "0000000000000000"
            "0000000001000200"
            "0000000000000000"
            "6b00000000000000");
  const auto back = DecodeBatch(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->head.epoch, 3);
  EXPECT_EQ(back->head.primary, 5);
  EXPECT_EQ(back->head.commit, 6);
  EXPECT_EQ(back->head.clock_us, 11);
  EXPECT_EQ(back->records, records);
}

TEST(Batch, TornOnesAreNone) {
  const std::string bytes = EncodeBatch({.epoch = 3, .primary = 5, .commit = 6, .first = 7},
                                        {{.sequence = 7, .key = "key", .value = "value"}});
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string torn = bytes;
    torn[i] = static_cast<char>(torn[i] ^ 0x20);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeBatch(torn).status())) << i;
    EXPECT_FALSE(DecodeBatch(absl::string_view(bytes).substr(0, i)).ok()) << i;
  }
}

TEST(Batch, WhatNoPrimaryCanHaveSaidIsRefused) {
  using Kind = Record::Kind;
  const auto decodes = [](Record record) {
    record.sequence = 1;
    return DecodeBatch(EncodeBatch({.first = 1}, {record})).ok();
  };
  const std::string longest(1024, 'k');
  EXPECT_TRUE(decodes({.key = longest}));
  EXPECT_FALSE(decodes({.key = longest + "k"}));
  EXPECT_FALSE(decodes({.key = ""}));
  EXPECT_FALSE(decodes({.kind = Kind::kDelete, .key = ""}));
  EXPECT_FALSE(decodes({.kind = Kind::kDelete, .key = "k", .value = "v"}));
  EXPECT_TRUE(decodes({.session = 1, .number = 1, .outcome = static_cast<kv::Code>(15), .key = "k"}));
  EXPECT_FALSE(decodes({.session = 1, .number = 1, .outcome = static_cast<kv::Code>(255), .key = "k"}))
      << "never in a reply";
  EXPECT_FALSE(decodes({.number = 1, .key = "k"}));
  EXPECT_FALSE(decodes({.flags = 2, .key = "k"}));
  EXPECT_FALSE(decodes({.kind = Kind::kOutcome, .session = 1, .number = 1, .key = "k"}));
  EXPECT_TRUE(decodes({.kind = Kind::kSession, .session = 1, .version = 3, .key = std::string(64, 'u')}));
  EXPECT_FALSE(decodes({.kind = Kind::kSession, .session = 1, .version = 3, .key = std::string(65, 'u')}));
  EXPECT_FALSE(decodes({.kind = Kind::kSession, .session = 0, .version = 3, .key = "u"}));
  EXPECT_FALSE(decodes({.kind = Kind::kSession, .session = 1, .version = uint64_t{1} << 32, .key = "u"}));
  EXPECT_TRUE(decodes({.kind = Kind::kLost}));
  EXPECT_TRUE(decodes({.kind = Kind::kTouch, .expires_ms = kv::kExpiryTimeMask, .key = "k"}));
  EXPECT_FALSE(decodes({.kind = Kind::kTouch, .expires_ms = kv::kExpiryTimeMask + 1, .key = "k"}));
  EXPECT_FALSE(decodes({.kind = Kind::kTouch, .expires_ms = 1}));
  EXPECT_FALSE(decodes({.kind = Kind::kTouch, .key = "k", .value = "v"}));
  EXPECT_FALSE(decodes({.kind = Kind::kDelete, .expires_ms = 1, .key = "k"}));
  EXPECT_TRUE(decodes({.item_kind = kv::ItemKind::kCounter, .key = "k", .value = "8 bytes."}));
  EXPECT_FALSE(decodes({.item_kind = kv::ItemKind::kCounter, .key = "k", .value = "bytes"}));
  EXPECT_FALSE(decodes({.kind = Kind::kDelete, .item_kind = kv::ItemKind::kCounter, .key = "k"}));
  EXPECT_FALSE(decodes({.item_kind = static_cast<kv::ItemKind>(2), .key = "k"}));
  EXPECT_FALSE(DecodeBatch(EncodeBatch({.first = 1, .clock_us = kv::kExpiryTimeMask * 1000 + 1}, {})).ok());
}

// Never too early, whatever the message's transit time was; and not much too late after one fast message.
TEST(ClockLead, IsThatOfTheFastestNews) {
  ClockLead lead;  // this clock is 5 s ahead of the other
  lead.Update(1'000'000, 9'000'000);
  EXPECT_EQ(lead.OwnMs(2000), 10'000u) << "3 s later than it is";
  lead.Update(10'000'000, 15'000'300);
  EXPECT_EQ(lead.OwnMs(20'000), 25'001u);
  lead.Update(10'500'000, 17'000'000);
  EXPECT_EQ(lead.OwnMs(20'000), 25'003u) << "with room for the drift of two seconds";
  lead.Update(40'000'000, 45'000'000);
  EXPECT_EQ(lead.OwnMs(50'000), 55'000u);
  // Expect: an own clock that is behind is as good.
  ClockLead behind;
  behind.Update(100'000'000, 1'000'000);
  EXPECT_EQ(behind.OwnMs(100'500), 1500u);
  EXPECT_EQ(behind.OwnMs(1), 1u) << "long over, and not never";
}

// In a random walk of transit times and drifts no time is early, and none is later than the shortest transit and the
// drift allow.
TEST(ClockLead, IsNeverEarly) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 100; ++run) {
    ClockLead lead;
    const double rate = 1 + 0.0009 * (static_cast<double>(random() % 2001) / 1000 - 1);  // own clock, by the other
    const double offset_us = 1e9 + static_cast<double>(random() % 1'000'000'000);
    const auto own_at = [&](double other_us) { return static_cast<uint64_t>(offset_us + rate * other_us); };
    double other_us = 1e6;
    for (int i = 0; i < 200; ++i) {
      other_us += static_cast<double>(random() % 2'000'000);
      const double way_us = static_cast<double>(random() % 10 == 0 ? 50 : random() % 3'000'000);
      lead.Update(static_cast<uint64_t>(other_us), own_at(other_us + way_us));
      const uint64_t now_ms = static_cast<uint64_t>((other_us + way_us) / 1000);
      const uint64_t own_ms = lead.OwnMs(now_ms);
      ASSERT_GE(own_ms * 1000 + 1, own_at(static_cast<double>(now_ms) * 1000)) << run << " " << i;
    }
  }
}

class StreamTest : public testing::Test {
 protected:
  void Append(const std::string& value) { ASSERT_TRUE(out_.Append(Put("k", value)).ok()); }

  OutgoingStream out_{2, 1, 1, {}, kPlenty};
  IncomingStream in_{2, 1, 0};
};

// It may have to send the accepted records itself.
TEST_F(StreamTest, AnExpiryIsATimeOfWhoHoldsTheRecord) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  ASSERT_TRUE(out_.Append({.expires_ms = 5000, .key = "k", .value = "v"}).ok());
  ASSERT_TRUE(out_.Append({.kind = Record::Kind::kTouch, .expires_ms = 6000, .key = "k"}).ok());
  ASSERT_TRUE(out_.Append({.key = "k", .value = "for ever"}).ok());
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 1'000'000)), 91'000'000, Room).ok());
  EXPECT_EQ(in_.tail()[0].expires_ms, 95'000u);
  EXPECT_EQ(in_.tail()[1].expires_ms, 96'000u);
  EXPECT_EQ(in_.tail()[2].expires_ms, 0u);
  // Expect: another primary's clock is another one.
  in_.EnterEpoch(3, 2);
  OutgoingStream next(3, 2, 4, {}, kPlenty);
  ASSERT_TRUE(next.Follow(10, 3).ok());
  ASSERT_TRUE(next.Append({.expires_ms = 6000, .key = "k", .value = "v"}).ok());
  ASSERT_TRUE(in_.Take(BytesOf(next.NextBatch(10, kPlenty, 1'000'000)), 191'000'000, Room).ok());
  EXPECT_EQ(in_.tail()[3].expires_ms, 196'000u);
}

TEST_F(StreamTest, WhatAllAcceptedIsCommittedAndThenApplied) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  ASSERT_TRUE(out_.Follow(11, 0).ok());
  Append("a");
  Append("b");
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, Room).ok());
  EXPECT_EQ(in_.accepted(), 2);
  EXPECT_EQ(in_.ToApply(), nullptr);
  ASSERT_TRUE(out_.Accepted(10, 2).ok());
  EXPECT_EQ(out_.Commit({10, 11}), 0);
  EXPECT_EQ(out_.Commit({10, 12}), 0);  // a member that is not connected
  out_.NextBatch(11, kPlenty, 0);
  ASSERT_TRUE(out_.Accepted(11, 1).ok());
  EXPECT_EQ(out_.Commit({10, 11}), 1);
  // Expect: it never goes back, for any set of members that must accept.
  EXPECT_EQ(out_.Commit({10, 11, 12}), 1);
  EXPECT_EQ(out_.Commit({10}), 2);
  EXPECT_EQ(BytesOf(out_.NextBatch(10, kPlenty, 0, /*alone=*/false)), "") << "it goes with the next record";
  // Expect: otherwise a batch without records carries it.
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, Room).ok());
  ASSERT_NE(in_.ToApply(), nullptr);
  EXPECT_EQ(in_.ToApply()->value, "a");
  in_.Applied();
  EXPECT_EQ(in_.ToApply()->value, "b");
  in_.Applied();
  EXPECT_EQ(in_.ToApply(), nullptr);
  EXPECT_EQ(BytesOf(out_.NextBatch(10, kPlenty, 0)), "");
}

TEST_F(StreamTest, BatchesAreNoLongerThanAskedForButOneRecord) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  for (int i = 0; i < 3; ++i) Append(std::string(100, 'x'));
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, 1, 0)), 0, Room).ok());
    EXPECT_EQ(in_.accepted(), i);
  }
  EXPECT_EQ(BytesOf(out_.NextBatch(10, 1, 0)), "");
}

// Records fill pieces of memory: each arrives unchanged, whatever its length.
TEST_F(StreamTest, RecordsOfAllLengthsArriveAsTheyWere) {
  OutgoingStream out(2, 1, 1, {}, 4 * kPlenty);
  ASSERT_TRUE(out.Follow(10, 0).ok());
  std::vector<std::string> values;
  for (const size_t bytes : {0, 100, 50'000, 20'000, 70'000, 1, 200'000, 8, 65'472, 3}) {
    values.emplace_back(bytes, static_cast<char>('a' + values.size()));
    ASSERT_TRUE(out.Append(Put("k", values.back())).ok());
  }
  // Some at once, encoded by the caller or not.
  std::vector<Record> some;
  for (const std::string& value : values) some.push_back(Put("many", value));
  std::shared_ptr<char[]> encoded(new char[BytesOf(some)]);
  char* to = encoded.get();
  for (const Record& record : some) {
    EncodeRecord(record, to);
    to += record.bytes();
  }
  EXPECT_EQ(*out.Append(some, std::move(encoded)), 2 * values.size());
  EXPECT_EQ(*out.Append(some), 3 * values.size());
  for (std::optional<OutgoingBatch> batch; (batch = out.NextBatch(10, 64'000, 0)).has_value();) {
    EXPECT_TRUE(batch->records.size() <= 64'000 || batch->head.records == 1) << batch->records.size();
    ASSERT_TRUE(in_.Take(BytesOf(batch), 0, Room).ok());
    ASSERT_TRUE(out.Accepted(10, in_.accepted()).ok());
  }
  ASSERT_EQ(in_.tail().size(), 3 * values.size());
  for (size_t i = 0; i < in_.tail().size(); ++i) {
    EXPECT_EQ(in_.tail()[i].value, values[i % values.size()]) << i;
    EXPECT_EQ(in_.tail()[i].key, i < values.size() ? "k" : "many");
  }
  out.Commit({});
  EXPECT_EQ(out.kept_bytes(), 0u);
}

// An idle primary does not keep the memory of long records.
TEST_F(StreamTest, MemoryOfALongRecordIsLetGo) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  Append(std::string(200'000, 'v'));
  const auto batch = out_.NextBatch(10, kPlenty, 0);
  EXPECT_EQ(batch->memory.use_count(), 2);
  ASSERT_TRUE(out_.Accepted(10, 1).ok());
  out_.Commit({10});
  EXPECT_EQ(batch->memory.use_count(), 1);
  Append("short");
  ASSERT_TRUE(in_.Take(BytesOf(batch), 0, Room).ok());
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, Room).ok());
  EXPECT_EQ(in_.tail().back().value, "short");
}

// A backup without room applies records to make some: they may belong to the batch that it takes.
TEST_F(StreamTest, RecordsOfTheBatchThatIsTakenMayBeApplied) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  for (int i = 0; i < 4; ++i) Append(std::string(100, static_cast<char>('a' + i)));
  out_.Commit({});
  std::string applied;
  const auto apply = [&](const Record&) {
    for (; in_.ToApply() != nullptr; in_.Applied()) applied += std::string(in_.ToApply()->value);
    return true;
  };
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, apply).ok());
  EXPECT_EQ(applied, std::string(100, 'a') + std::string(100, 'b') + std::string(100, 'c'));
  ASSERT_NE(in_.ToApply(), nullptr);
  EXPECT_EQ(in_.ToApply()->value, std::string(100, 'd'));
}

TEST_F(StreamTest, WhatIsMissingTornOrOfAnotherEpochIsNotAccepted) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  Append("a");
  const std::string first = BytesOf(out_.NextBatch(10, kPlenty, 0));
  Append("b");
  const std::string second = BytesOf(out_.NextBatch(10, kPlenty, 0));
  EXPECT_TRUE(absl::IsFailedPrecondition(in_.Take(second, 0, Room)));
  EXPECT_TRUE(absl::IsInvalidArgument(in_.Take(first.substr(1), 0, Room)));
  IncomingStream other(3, 1, 0), others(2, 9, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.Take(first, 0, Room)));
  EXPECT_TRUE(absl::IsFailedPrecondition(others.Take(first, 0, Room)));
  EXPECT_EQ(in_.accepted(), 0);
  // Expect: a repeated batch is taken once.
  for (const std::string& batch : {first, second, first, second}) ASSERT_TRUE(in_.Take(batch, 0, Room).ok());
  EXPECT_EQ(in_.accepted(), 2);
  EXPECT_EQ(in_.tail().size(), 2);
}

TEST_F(StreamTest, ABackupWithoutRoomAcceptsWhatCameBefore) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  Append("a");
  Append("too long");
  Append("c");
  const std::string batch = BytesOf(out_.NextBatch(10, kPlenty, 0));
  const auto small = [](const Record& record) { return record.value.size() < 3; };
  EXPECT_TRUE(absl::IsResourceExhausted(in_.Take(batch, 0, small)));
  EXPECT_EQ(in_.accepted(), 1);
  // Expect: with room, the rest follows, though it is not sent again.
  const std::string alone = EncodeBatch({.epoch = 2, .primary = 1, .commit = 1, .first = 4}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(in_.Take(alone, 0, small)));
  EXPECT_EQ(in_.committed(), 1);
  EXPECT_TRUE(in_.Take(alone, 0, Room).ok());
  EXPECT_EQ(in_.accepted(), 3);
}

// The next primary may have other records in their place, or none.
TEST_F(StreamTest, RecordsThatFoundNoRoomEndWithTheirEpoch) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  Append("a");
  Append("too long");
  const auto small = [](const Record& record) { return record.value.size() < 3; };
  EXPECT_TRUE(absl::IsResourceExhausted(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, small)));
  in_.EnterEpoch(3, 7);
  const std::string alone = EncodeBatch({.epoch = 3, .primary = 7, .commit = 1, .first = 2}, {});
  EXPECT_TRUE(in_.Take(alone, 0, Room).ok());
  EXPECT_EQ(in_.accepted(), 1);
  EXPECT_EQ(in_.tail().size(), 1);
}

TEST_F(StreamTest, APrimaryKeepsNoMoreThanItMayAndWhatIsNeeded) {
  OutgoingStream out(2, 1, 1, {}, 3 * Put("k", "v").bytes());
  ASSERT_TRUE(out.Follow(10, 0).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(out.Append(Put("k", "v")).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(out.Append(Put("k", "v")).status()));
  out.NextBatch(10, kPlenty, 0);
  ASSERT_TRUE(out.Accepted(10, 2).ok());
  EXPECT_EQ(out.Commit({10}), 2);
  EXPECT_EQ(out.kept_bytes(), Put("k", "v").bytes());
  EXPECT_TRUE(out.Append(Put("k", "v")).ok());
  // Expect: a backup must be filled if it lacks records that are not kept, or has more than there are.
  EXPECT_TRUE(out.Follow(10, 2).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(out.Follow(11, 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(out.Follow(11, 5).status()));
  // Expect: a backup that is gone delays nothing.
  EXPECT_EQ(out.Commit({}), 4);
  out.Forget(10);
  EXPECT_EQ(out.kept_bytes(), 0);
}

// For a new primary, whose log ends at record 2.
TEST_F(StreamTest, WhoHasMoreThanANewPrimaryCountsWhenItHasCutThatOff) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  for (const char* key : {"a", "b", "c", "d"}) Append(key);
  ASSERT_TRUE(in_.Take(BytesOf(out_.NextBatch(10, kPlenty, 0)), 0, Room).ok());
  OutgoingStream next(3, 2, 3, {in_.tail()[0], in_.tail()[1]}, 1'000'000);
  in_.EnterEpoch(3, 2);
  EXPECT_EQ(*next.Follow(10, in_.accepted()), 2);
  EXPECT_EQ(next.Commit({10}), 0) << "it may be promoted, and would keep what this one lacks";
  while (in_.accepted() > 2) in_.CutNewest();
  ASSERT_TRUE(next.Accepted(10, in_.accepted()).ok());
  EXPECT_EQ(next.Commit({10}), 2);
  ASSERT_EQ(*next.Append(Put("e", "v")), 3);
  ASSERT_TRUE(in_.Take(BytesOf(next.NextBatch(10, kPlenty, 0)), 0, Room).ok());
  EXPECT_EQ(in_.tail().back().key, "e");
  EXPECT_EQ(in_.accepted(), 3);
}

// The numbers match, and the records differ.
TEST_F(StreamTest, RecordsOfTheFormerEpochAreNotTakenForThoseThatWereAppendedSince) {
  OutgoingStream out(3, 2, 3, {Put("a", "v"), Put("b", "v")}, 1'000'000);
  ASSERT_TRUE(out.Follow(10, 2).ok());
  ASSERT_EQ(*out.Append(Put("e", "v")), 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(out.Follow(11, 3).status()));
  ASSERT_TRUE(out.Follow(11, 2).ok());
  ASSERT_TRUE(out.Accepted(11, 3).ok());
  EXPECT_EQ(*out.Follow(11, 3), 3) << "this one it has";
  // Expect: a backup that is filled counts as having everything.
  EXPECT_EQ(out.Begin(12), 3);
  ASSERT_EQ(*out.Append(Put("f", "v")), 4);
  ASSERT_TRUE(out.Accepted(12, 4).ok());
  EXPECT_EQ(*out.Follow(12, 4), 4);
}

TEST_F(StreamTest, NobodyAcceptsWhatThereIsNot) {
  ASSERT_TRUE(out_.Follow(10, 0).ok());
  Append("a");
  EXPECT_TRUE(absl::IsInvalidArgument(out_.Accepted(10, 2)));
  EXPECT_EQ(out_.Commit({10}), 0);
  EXPECT_TRUE(out_.Accepted(99, 1).ok());  // it was removed
}

// Three replicas with connections that lose, repeat, tear and break; backups without room; the primary dies repeatedly,
// and any other one is next.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    for (uint64_t i = 0; i < 3; ++i) replicas_.push_back(std::make_unique<Replica>());
    Lead(0, {});
  }

  // Returns how many records were cut off.
  int Do() {
    for (int round = 0; round < 2'000; ++round) Step();
    // The faults end: all writes arrive, over new connections, since batches lost last would not be sent again.
    calm_ = true;
    for (const uint64_t backup : Backups()) Connect(backup);
    for (int round = 0; round < 300; ++round) {
      for (size_t i = 0; i < replicas_.size(); ++i) Deliver(i);
      Commit();
    }
    EXPECT_EQ(out_->committed(), out_->last());
    for (size_t i = 0; i < replicas_.size(); ++i) {
      EXPECT_EQ(replicas_[i]->table, replicas_[primary_]->table) << i;
    }
    EXPECT_GT(acknowledged_, 20);
    return cuts_;
  }

 private:
  struct Replica {
    std::unique_ptr<IncomingStream> in = std::make_unique<IncomingStream>(0, 0, 0);
    std::vector<std::string> table;  // all writes that were published, in order
    std::string late;                // a batch in transit
  };

  size_t Any(size_t below) { return random_() % below; }

  std::vector<uint64_t> Backups() const {
    std::vector<uint64_t> backups;
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (i != primary_) backups.push_back(i);
    }
    return backups;
  }

  void Lead(size_t next, const std::deque<Record>& tail) {
    primary_ = next;
    ++epoch_;
    IncomingStream& in = *replicas_[next]->in;
    begin_ = in.accepted();
    out_ = std::make_unique<OutgoingStream>(epoch_, next, in.accepted() + 1, tail, 2'000);
    for (const uint64_t backup : Backups()) {
      replicas_[backup]->in->EnterEpoch(epoch_, next);
      Connect(backup);
    }
  }

  void Connect(uint64_t backup) {
    IncomingStream& in = *replicas_[backup]->in;
    const absl::StatusOr<uint64_t> from = out_->Follow(backup, in.accepted());
    ASSERT_TRUE(from.ok()) << from.status();
    if (*from == in.accepted()) return;
    EXPECT_GE(*from, in.committed());
    while (in.accepted() > *from) in.CutNewest();
    ++cuts_;
    EXPECT_TRUE(out_->Accepted(backup, in.accepted()).ok());
  }

  void Commit() {
    const uint64_t before = replicas_[primary_]->table.size();
    const uint64_t committed = out_->Commit(Backups());
    for (uint64_t sequence = before + 1; sequence <= committed; ++sequence) {
      replicas_[primary_]->table.push_back(written_[sequence]);
      acknowledged_ = std::max(acknowledged_, sequence);
      // An acknowledged sequence never becomes another write later.
      const auto [found, fresh] = published_.emplace(sequence, written_[sequence]);
      EXPECT_EQ(found->second, written_[sequence]);
    }
  }

  void Deliver(size_t i) {
    if (i == primary_) return;
    Replica& replica = *replicas_[i];
    std::string batch = BytesOf(out_->NextBatch(i, 1 + Any(300), 0));
    if (batch.empty() && !calm_) batch = replica.late;
    if (batch.empty()) return;
    if (!calm_) {
      switch (Any(10)) {
        case 0:
          return;  // lost
        case 1:
          batch[Any(batch.size())] ^= 1;
          break;
        case 2:
          batch.resize(Any(batch.size()));
          break;
        case 3:
          std::swap(batch, replica.late);
          if (batch.empty()) return;
          break;
        default:
          break;
      }
    }
    const auto room = [this](const Record&) { return calm_ || Any(10) != 0; };
    const absl::Status status = replica.in->Take(batch, 0, room);
    while (const Record* const record = replica.in->ToApply()) {
      replica.table.emplace_back(record->value);
      replica.in->Applied();
    }
    if (!status.ok()) {
      Connect(i);
    } else if (calm_ || Any(3) != 0) {
      EXPECT_TRUE(out_->Accepted(i, replica.in->accepted()).ok());
    }
  }

  void Promote() {
    // Rule 6, and for a backup that was filled, that it became a member: all have accepted what this primary began
    // with.
    if (out_->committed() < begin_) return;
    // The old primary is gone, with its memory; another process takes its place, and is filled with a full copy.
    const size_t old = primary_;
    const size_t next = (old + 1 + Any(2)) % 3;
    EXPECT_GE(replicas_[next]->in->accepted(), acknowledged_);
    const std::deque<Record>& tail = replicas_[next]->in->tail();
    for (const Record& record : tail) written_[record.sequence] = std::string(record.value);
    auto filled = std::make_unique<Replica>();
    filled->table = replicas_[next]->table;
    filled->in = std::make_unique<IncomingStream>(0, 0, filled->table.size());
    replicas_[old] = std::move(filled);
    Lead(next, tail);
  }

  void Step() {
    switch (Any(100)) {
      case 0:
        Promote();
        return;
      case 1: {
        const size_t backup = Any(3);
        if (backup != primary_) Connect(backup);
        return;
      }
      default:
        break;
    }
    switch (Any(4)) {
      case 0: {
        const std::string value = std::to_string(++values_);
        const auto sequence = out_->Append(Put("k", value));
        if (sequence.ok()) written_[*sequence] = value;
        return;
      }
      case 1:
        Commit();
        return;
      default:
        Deliver(Any(3));
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unique_ptr<OutgoingStream> out_;
  size_t primary_ = 0;
  uint64_t epoch_ = 0;
  uint64_t begin_ = 0;  // the last record that the primary had when it became primary
  uint64_t acknowledged_ = 0;
  int values_ = 0, cuts_ = 0;
  bool calm_ = false;
  std::map<uint64_t, std::string> written_, published_;
};

TEST(Stream, ConvergesWhateverConnectionsDo) {
  int cuts = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    cuts += History(seed).Do();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(cuts, 200);
}

}  // namespace
}  // namespace farlook::cluster
