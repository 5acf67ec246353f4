#include "cluster/configuration.h"

#include <string>

#include "absl/strings/escaping.h"
#include "cluster/directory.h"
#include "cluster/table_layout.h"
#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/fields.h"

namespace farlook::cluster {

using kv::EpochWord;

namespace {

Configuration Example() {
  return {.group = 7,
          .epoch = 3,
          .lease_us = 150'000,
          .hash_seed = 9,
          .layout = TableLayout(2),
          .replicas = 3,
          .min_insync = 2,
          .members = {{.incarnation = 1, .kind = Replica::Kind::kBackup, .address = "shm:///a"},
                      {.incarnation = 2, .kind = Replica::Kind::kPrimary, .address = "rdma://h:1"}}};
}

TEST(Configuration, GoldenBytesAndBack) {
  const std::string bytes = EncodeConfiguration(Example());
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "666c6b67726f7570"
            "018008000700000000000000"
            "028008000300000000000000"
            "03800400f0490200"
            "048008000900000000000000"
            "0580040002000000"
            "0680040003000000"
            "0780040002000000"
            "40802000"
            "018008000100000000000000"
            "0280010001000000"
            "0380080073686d3a2f2f2f61"
            "41802400"
            "018008000200000000000000"
            "0280010002000000"
            "03800a0072646d613a2f2f683a310000");
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
  EXPECT_EQ(back->primary().incarnation, 2);
  EXPECT_EQ(back->Find(1)->address, "shm:///a");
  EXPECT_EQ(back->Find(5), nullptr);
}

// The cluster's fields come before the members, and are absent without a cluster.
TEST(Configuration, OfAClusterGoldenBytesAndBack) {
  Configuration configuration = Example();
  configuration.cluster = "kv";
  configuration.slots = *kv::ParseSlots("0-7,4095");
  const std::string bytes = EncodeConfiguration(configuration);
  const std::string without = EncodeConfiguration(Example());
  const size_t at = without.find(absl::HexStringToBytes("40802000"));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(without.substr(0, at)) + "088002006b760000" +
                                               "0980080000000700ff0fff0f" + absl::BytesToHexString(without.substr(at)));
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, configuration);
  // Expect: for a group without slots only the cluster's name is encoded.
  configuration.slots.reset();
  EXPECT_EQ(EncodeConfiguration(configuration).size(), without.size() + 8);
  EXPECT_EQ(*DecodeConfiguration(EncodeConfiguration(configuration)), configuration);
}

TEST(Configuration, ThatThePrimaryHasLeftGoldenBytesAndBack) {
  Configuration configuration = Example();
  configuration.primary_left = true;
  const std::string bytes = EncodeConfiguration(configuration);
  const std::string without = EncodeConfiguration(Example());
  const size_t at = without.find(absl::HexStringToBytes("40802000"));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(without.substr(0, at)) + "0a80010001000000" +
                                               absl::BytesToHexString(without.substr(at)));
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, configuration);
  // Expect: no other value is valid there.
  std::string other = bytes;
  other[at + 4] = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeConfiguration(other).status()));
}

TEST(Configuration, HistoryGoldenBytesAndBack) {
  Configuration configuration = Example();
  configuration.history = 1;
  const std::string bytes = EncodeConfiguration(configuration);
  const std::string without = EncodeConfiguration(Example());
  const size_t at = without.find(absl::HexStringToBytes("40802000"));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(without.substr(0, at)) + "0c800800" +
                                               "0100000000000000" + absl::BytesToHexString(without.substr(at)));
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, configuration);
}

TEST(Configuration, LimitsGoldenBytesAndBack) {
  Configuration configuration = Example();
  configuration.limits = {.max_value_bytes = 1 << 20, .memory_bytes = 1 << 30};
  const std::string bytes = EncodeConfiguration(configuration);
  const std::string without = EncodeConfiguration(Example());
  const size_t at = without.find(absl::HexStringToBytes("40802000"));
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(without.substr(0, at)) + "0b801000" +
                                               "0000100000000000" + "0000004000000000" +
                                               absl::BytesToHexString(without.substr(at)));
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, configuration);
  // Expect: zeros are not encoded, so none are valid there.
  std::string zeros = bytes;
  zeros.replace(at + 4, 16, std::string(16, '\0'));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeConfiguration(zeros).status()));
}

// Moves come after the members; a move in state kTaken no longer names its slots.
TEST(Configuration, WithMovesGoldenBytesAndBack) {
  Configuration configuration = Example();
  configuration.cluster = "kv";
  const std::string without = EncodeConfiguration(configuration);
  configuration.moves = {{.id = 5, .kind = Move::Kind::kTaking, .group = "g1", .slots = *kv::ParseSlots("0-7")},
                         {.id = 6, .kind = Move::Kind::kTaken, .group = "g2"}};
  const std::string bytes = EncodeConfiguration(configuration);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(without) +
                                               "80802400"
                                               "018008000500000000000000"
                                               "0280010001000000"
                                               "0380020067310000"
                                               "0480040000000700"
                                               "81801c00"
                                               "018008000600000000000000"
                                               "0280010002000000"
                                               "0380020067320000");
  const auto back = DecodeConfiguration(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, configuration);
  EXPECT_EQ(back->FindMove(6)->group, "g2");
  EXPECT_EQ(back->FindMove(7), nullptr);
}

TEST(Configuration, RefusesMovesThatMakeNoSense) {
  const auto refused = [](auto change) {
    Configuration configuration = Example();
    configuration.cluster = "kv";
    configuration.slots = *kv::ParseSlots("100-200");
    configuration.moves = {{.id = 5, .kind = Move::Kind::kTaking, .group = "g1", .slots = *kv::ParseSlots("0-7")},
                           {.id = 6, .kind = Move::Kind::kGiven, .group = "g2", .slots = *kv::ParseSlots("8")}};
    change(&configuration);
    return absl::IsInvalidArgument(configuration.Check()) &&
           absl::IsInvalidArgument(DecodeConfiguration(EncodeConfiguration(configuration)).status());
  };
  EXPECT_FALSE(refused([](Configuration*) {}));
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].id = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].id = 6; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].group = "a b"; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].slots.reset(); }));
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].kind = Move::Kind::kTaken; })) << "and names its slots";
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].slots.set(100); })) << "which is its own";
  EXPECT_TRUE(refused([](Configuration* c) { c->moves[0].slots.set(8); })) << "which it gave";
  EXPECT_TRUE(refused([](Configuration* c) { c->cluster.clear(), c->slots.reset(); }));
  Configuration many = Example();
  many.cluster = "kv";
  for (size_t i = 0; i <= kMaxMoves; ++i) many.moves.push_back({.id = i + 1, .kind = Move::Kind::kTaken, .group = "g"});
  EXPECT_TRUE(absl::IsInvalidArgument(many.Check()));
  many.moves.pop_back();
  EXPECT_TRUE(many.Check().ok());
}

// Every other slot, all of them in moves, and the maximum number of moves: the record fits in a directory.
TEST(Configuration, TheLargestFitsInADirectory) {
  Configuration largest = Example();
  largest.cluster = std::string(kv::kMaxClusterNameBytes, 'c');
  largest.replicas = kMaxReplicas;
  largest.members.clear();
  for (size_t i = 0; i < kMaxReplicas; ++i) {
    largest.members.push_back({.incarnation = i + 1,
                               .kind = i == 0 ? Replica::Kind::kPrimary : Replica::Kind::kBackup,
                               .address = std::string(kMaxAddressBytes, 'a')});
  }
  for (size_t i = 0; i < kMaxMoves; ++i) {
    largest.moves.push_back({.id = i + 1,
                             .kind = i % 2 == 0 ? Move::Kind::kGiven : Move::Kind::kTaking,
                             .group = std::string(kv::kMaxClusterNameBytes, 'g')});
  }
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    if (slot % 3 == 0) largest.slots.set(slot);
    if (slot % 3 == 1) largest.moves[slot % kMaxMoves].slots.set(slot);
  }
  ASSERT_TRUE(largest.Check().ok()) << largest.Check();
  EXPECT_LT(EncodeConfiguration(largest).size(), kMaxRecordBytes);
}

TEST(Configuration, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    Configuration configuration = Example();
    change(&configuration);
    return absl::IsInvalidArgument(configuration.Check()) &&
           absl::IsInvalidArgument(DecodeConfiguration(EncodeConfiguration(configuration)).status());
  };
  EXPECT_FALSE(refused([](Configuration*) {}));
  EXPECT_TRUE(refused([](Configuration* c) { c->group = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->epoch = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->epoch = uint64_t{1} << 62; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->lease_us = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->history = c->epoch + 1; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->lease_us = kMaxLeaseUs + 1; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->replicas = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->replicas = kMaxReplicas + 1; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->min_insync = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->min_insync = 4; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members.clear(); }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[0].kind = Replica::Kind::kPrimary; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[1].kind = Replica::Kind::kBackup; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[0].incarnation = 0; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[0].incarnation = 2; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[0].address.clear(); }));
  EXPECT_TRUE(refused([](Configuration* c) { c->members[0].address.assign(kMaxAddressBytes + 1, 'a'); }));
  EXPECT_TRUE(refused([](Configuration* c) { c->cluster = "a b"; }));
  EXPECT_TRUE(refused([](Configuration* c) { c->slots.set(7); }));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeConfiguration("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeConfiguration("flkgroup").status()));
}

TEST(Configuration, GrowsByFields) {
  std::string bytes = EncodeConfiguration(Example());
  kv::AppendField(30, "may be ignored", &bytes);
  EXPECT_EQ(*DecodeConfiguration(bytes), Example());
  kv::AppendField(31 | kv::kCriticalTag, "must not", &bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeConfiguration(bytes).status()));
}

TEST(EpochWord, OpenAndShut) {
  EXPECT_EQ(EpochWord::Open(5).bits(), 11);
  EXPECT_EQ(EpochWord::Shut(5).bits(), 10);
  EXPECT_EQ(EpochWord::FromBits(11), EpochWord::Open(5));
  EXPECT_EQ(EpochWord::FromBits(10).epoch(), 5);
  EXPECT_FALSE(EpochWord().is_open());
}

}  // namespace
}  // namespace farlook::cluster
