#include "cluster/configuration.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "kv/cluster_map.h"
#include "kv/epoch_word.h"
#include "kv/fields.h"

namespace farlook::cluster {

using kv::EpochWord;

namespace {

Configuration Example() {
  return {.group = 7,
          .epoch = 3,
          .lease_us = 150'000,
          .hash_seed = 9,
          .layout = 2,
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

// Its own fields come before the members, and there are none where there is no cluster.
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
  // Expect: of a group that has no slots yet nothing but the cluster's name is there.
  configuration.slots.reset();
  EXPECT_EQ(EncodeConfiguration(configuration).size(), without.size() + 8);
  EXPECT_EQ(*DecodeConfiguration(EncodeConfiguration(configuration)), configuration);
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
