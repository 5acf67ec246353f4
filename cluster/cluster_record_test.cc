#include "cluster/cluster_record.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cluster/file_directory.h"
#include "cluster/simulated_directory.h"
#include "cluster/table_layout.h"
#include "gtest/gtest.h"
#include "kv/wire/fields.h"

namespace farlook::cluster {
namespace {

using Fault = SimulatedDirectory::Fault;

kv::SlotSet Slots(absl::string_view text) { return *kv::ParseSlots(text); }

ClusterRecord Example() {
  return {
      .id = 7,
      .hash_seed = 9,
      .layout = TableLayout::Of(16),
      .groups = {{.name = "g0", .first_slots = Slots("0-2047")}, {.name = "g1", .first_slots = Slots("2048,4095")}}};
}

TEST(ClusterRecord, GoldenBytesAndBack) {
  const std::string bytes = EncodeClusterRecord(Example());
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "666c6b636c757374"
            "018008000700000000000000"
            "028008000900000000000000"
            "0380040010000203"
            "40801000"
            "0180020067300000"
            "028004000000ff07"
            "41801400"
            "0180020067310000"
            "0280080000080008ff0fff0f");
  const auto back = DecodeClusterRecord(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
  EXPECT_EQ(back->Find("g1")->first_slots.count(), 2u);
  EXPECT_EQ(back->Find("g2"), nullptr);
}

TEST(ClusterRecord, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    ClusterRecord record = Example();
    change(&record);
    return absl::IsInvalidArgument(record.Check()) &&
           absl::IsInvalidArgument(DecodeClusterRecord(EncodeClusterRecord(record)).status());
  };
  EXPECT_FALSE(refused([](ClusterRecord*) {}));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->id = 0; }));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->groups[0].name = "g1"; }));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->groups[0].name = ""; }));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->groups[0].name = ".g"; }));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->groups[0].name = "a b"; }));
  EXPECT_TRUE(refused([](ClusterRecord* r) { r->groups[0].first_slots.set(2048); }));
  ClusterRecord many = Example();
  for (size_t i = 2; i <= kv::kMaxGroups; ++i) many.groups.push_back({.name = absl::StrCat("g", i)});
  EXPECT_TRUE(absl::IsInvalidArgument(many.Check()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeClusterRecord("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeClusterRecord("flkclust").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeClusterRecord("flkgroup").status())) << "of a group";
}

TEST(ClusterRecord, GrowsByFields) {
  std::string bytes = EncodeClusterRecord(Example());
  kv::AppendField(30, "may be ignored", &bytes);
  EXPECT_EQ(*DecodeClusterRecord(bytes), Example());
  kv::AppendField(31 | kv::kCriticalTag, "must not", &bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeClusterRecord(bytes).status()));
}

// The maximum number of groups, with the longest names, and slots of which no two are adjacent.
TEST(ClusterRecord, TheLargestFitsInADirectory) {
  ClusterRecord record = {.id = 7};
  for (size_t i = 0; i < kv::kMaxGroups; ++i) {
    record.groups.push_back({.name = absl::StrCat(std::string(kv::kMaxClusterNameBytes - 3, 'g'), 100 + i)});
  }
  for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
    record.groups[slot % kv::kMaxGroups].first_slots.set(slot);
  }
  ASSERT_TRUE(record.Check().ok());
  const std::string bytes = EncodeClusterRecord(record);
  EXPECT_GT(bytes.size(), kMaxRecordBytes / 2);
  EXPECT_TRUE(CheckRecord("kv", bytes.size()).ok());
  EXPECT_EQ(*DecodeClusterRecord(bytes), record);
}

class EnterClusterTest : public testing::Test {
 protected:
  absl::StatusOr<ClusterRecord> Enter(absl::string_view group, absl::string_view slots, uint64_t hash_seed = 3,
                                      int partitions = 1) {
    return EnterCluster(&directory_, "kv", group, Slots(slots), hash_seed, TableLayout::Of(partitions));
  }
  // The faults of the directory's next calls, in this order; then no more faults.
  void Meet(std::vector<Fault> faults) { faults_ = std::move(faults); }
  ClusterRecord Present() { return *DecodeClusterRecord(records_.Get("kv").value); }

  SimulatedRecords records_;
  std::vector<Fault> faults_;
  SimulatedDirectory directory_{&records_, [this] {
                                  if (faults_.empty()) return Fault::kNone;
                                  const Fault fault = faults_.front();
                                  faults_.erase(faults_.begin());
                                  return fault;
                                }};
};

TEST_F(EnterClusterTest, TheFirstGroupMakesItAndOthersTakeItsHashSeedAndLayout) {
  const auto first = Enter("g0", "0-2047", 3, 16);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(first->id, 0u);
  EXPECT_EQ(first->hash_seed, 3u);
  EXPECT_EQ(first->layout, TableLayout::Of(16));
  const auto second = Enter("g1", "2048-4095", 4, 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->id, first->id);
  EXPECT_EQ(second->hash_seed, 3u);
  EXPECT_EQ(second->layout, TableLayout::Of(16));
  EXPECT_EQ(second->groups.size(), 2u);
  EXPECT_EQ(*second, Present());
  EXPECT_TRUE(Enter("g2", "").ok()) << "one that is to be given slots later";
}

TEST_F(EnterClusterTest, WhoHasLeftStaysThereAndNeverComesBack) {
  ASSERT_TRUE(Enter("g0", "0-2047").ok());
  ASSERT_TRUE(Enter("g1", "2048-4095").ok());
  EXPECT_TRUE(absl::IsNotFound(LeaveCluster(&directory_, "kv", "g2")));
  ASSERT_TRUE(LeaveCluster(&directory_, "kv", "g0").ok());
  EXPECT_TRUE(Present().Find("g0")->has_left);
  EXPECT_FALSE(Present().Find("g1")->has_left);
  const uint64_t revision = records_.Get("kv").revision;
  EXPECT_TRUE(LeaveCluster(&directory_, "kv", "g0").ok()) << "again";
  EXPECT_EQ(records_.Get("kv").revision, revision);
  EXPECT_TRUE(absl::IsFailedPrecondition(Enter("g0", "0-2047").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Enter("g3", "0-2047").status())) << "others have those slots now";
  Meet({Fault::kNone, Fault::kReplyLost});
  EXPECT_TRUE(LeaveCluster(&directory_, "kv", "g1").ok());
  EXPECT_EQ(*DecodeClusterRecord(EncodeClusterRecord(Present())), Present());
}

TEST_F(EnterClusterTest, WhoEntersAgainChangesNothing) {
  ASSERT_TRUE(Enter("g0", "0-2047").ok());
  const uint64_t revision = records_.Get("kv").revision;
  EXPECT_EQ(*Enter("g0", "0-2047"), Present());
  EXPECT_EQ(records_.Get("kv").revision, revision);
}

TEST_F(EnterClusterTest, ASlotIsTheFirstOfOneGroupOnly) {
  ASSERT_TRUE(Enter("g0", "0-2047").ok());
  const ClusterRecord before = Present();
  const absl::Status taken = Enter("g1", "2047-4095").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(taken));
  EXPECT_TRUE(absl::StrContains(taken.message(), "group g0 of cluster kv began with slots 2047:")) << taken;
  const absl::Status other = Enter("g0", "0-2046").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_TRUE(absl::StrContains(other.message(), "with first slots 0-2047, and not 0-2046:")) << other;
  EXPECT_EQ(Present(), before);
}

TEST_F(EnterClusterTest, ARecordOfSomethingElseIsLeftAlone) {
  records_.Cas("kv", 0, "flkgroup of another thing");
  const absl::Status status = Enter("g0", "0-2047").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(records_.Get("kv").value, "flkgroup of another thing");
}

TEST_F(EnterClusterTest, AsManyGroupsAsCanBe) {
  for (size_t i = 0; i < kv::kMaxGroups; ++i) ASSERT_TRUE(Enter(absl::StrCat("g", i), absl::StrCat(i)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Enter("g250", "250").status()));
  EXPECT_TRUE(Enter("g249", "249").ok()) << "it is one of them";
}

// Each call of the directory in turn loses its request, or its answer, or is executed late.
TEST_F(EnterClusterTest, WhateverIsLostTheGroupIsThereOnceInTheEnd) {
  for (const Fault fault : {Fault::kRequestLost, Fault::kReplyLost, Fault::kLate}) {
    for (size_t at = 0; at < 4; ++at) {
      const std::string name = absl::StrCat("g", static_cast<int>(fault), "-", at);
      const std::string slot = absl::StrCat(static_cast<int>(fault) * 10 + static_cast<int>(at));
      std::vector<Fault> faults(at, Fault::kNone);
      faults.push_back(fault);
      Meet(faults);
      absl::StatusOr<ClusterRecord> record = Enter(name, slot);
      EXPECT_TRUE(record.ok() || absl::IsUnavailable(record.status())) << record.status();
      Meet({});
      while (records_.delayed() > 0) records_.Execute(0);
      record = Enter(name, slot);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(*record, Present());
      EXPECT_TRUE(Present().Check().ok());
    }
  }
  EXPECT_EQ(Present().groups.size(), 12u);
}

TEST_F(EnterClusterTest, AnAnswerThatIsLostIsFoundByReadingAgain) {
  Meet({Fault::kNone, Fault::kReplyLost});
  const auto record = Enter("g0", "0-2047");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, Present());
}

TEST_F(EnterClusterTest, AnswersThatAreAlwaysLostAreSaid) {
  std::vector<Fault> faults;
  for (int i = 0; i < 100; ++i) faults.insert(faults.end(), {Fault::kNone, Fault::kRequestLost});
  Meet(faults);
  EXPECT_TRUE(absl::IsUnavailable(Enter("g0", "0-2047").status()));
  EXPECT_FALSE(faults_.empty()) << "within a bound";
}

TEST(EnterCluster, ManyAtOnceOnFiles) {
  std::string folder = testing::TempDir() + "/clusters_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  constexpr int kGroups = 16;
  std::vector<std::thread> threads;
  for (int i = 0; i < kGroups; ++i) {
    threads.emplace_back([&folder, i] {
      auto directory = FileDirectory::Open(folder);
      ASSERT_TRUE(directory.ok()) << directory.status();
      const auto record = EnterCluster(directory->get(), "kv", absl::StrCat("g", i), Slots(absl::StrCat(i)),
                                       static_cast<uint64_t>(i), TableLayout::Of(1));
      EXPECT_TRUE(record.ok()) << record.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto directory = FileDirectory::Open(folder);
  const auto record = DecodeClusterRecord((*directory)->Get("kv", Freshness::kLatest)->value);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->groups.size(), size_t{kGroups});
}

}  // namespace
}  // namespace farlook::cluster
