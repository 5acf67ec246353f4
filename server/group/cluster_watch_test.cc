#include "server/group/cluster_watch.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cluster/simulated_directory.h"
#include "gtest/gtest.h"

namespace farlook::server {
namespace {

using cluster::ClusterRecord;
using cluster::Configuration;
using cluster::Replica;
using cluster::SimulatedDirectory;
using Fault = SimulatedDirectory::Fault;

Configuration Of(uint64_t epoch, absl::string_view slots, std::vector<std::string> members,
                 absl::string_view cluster = "kv") {
  Configuration configuration;
  configuration.group = 7;
  configuration.epoch = epoch;
  configuration.cluster = std::string(cluster);
  configuration.slots = *kv::ParseSlots(slots);
  for (std::string& member : members) {
    const auto kind = configuration.members.empty() ? Replica::Kind::kPrimary : Replica::Kind::kBackup;
    configuration.members.push_back({configuration.members.size() + 1, kind, std::move(member)});
  }
  return configuration;
}

class ClusterWatchTest : public testing::Test {
 protected:
  ClusterWatchTest() {
    record_ = {.id = 5, .hash_seed = 3};
    for (const auto& [name, slots] : {std::pair("g0", "0-1023"), std::pair("g1", "1024-2047"), std::pair("g2", "")}) {
      record_.groups.push_back({name, *kv::ParseSlots(slots)});
    }
    Write("kv", EncodeClusterRecord(record_));
    watch_.SetOwn(Of(4, "0-1023", {"shm:///a", "shm:///b"}));
  }

  void Write(absl::string_view name, absl::string_view value) {
    ASSERT_EQ(records_.Cas(name, records_.Get(name).revision, value).outcome, cluster::CasOutcome::kDone);
  }
  void Write(absl::string_view name, const Configuration& configuration) {
    Write(name, EncodeConfiguration(configuration));
  }
  void Start() {
    watch_.Start(
        [this]() -> absl::StatusOr<std::unique_ptr<cluster::Directory>> {
          if (cannot_open_) return absl::UnavailableError("not now");
          return std::make_unique<SimulatedDirectory>(&records_, [this] {
            ++calls_;
            return fault_.load();
          });
        },
        absl::Milliseconds(1));
  }
  // Polls, with a bound, until the map is `map`.
  void Await(const std::string& map) {
    for (int i = 0; i < 20'000 && watch_.Map() != map; ++i) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(watch_.Map(), map);
  }
  void AwaitCalls(int more) {
    const int until = calls_ + more;
    for (int i = 0; i < 20'000 && calls_ < until; ++i) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_GE(calls_, until);
  }

  const std::string head_ = "cluster kv 0000000000000005 0000000000000003\n";
  const std::string own_ = "group g0 4\nmember shm:///a\nmember shm:///b\nslots 0 1023\n";
  const std::string others_ = "group g1 0\nslots 1024 2047\ngroup g2 0\n";

  ClusterRecord record_;
  cluster::SimulatedRecords records_;
  std::atomic<Fault> fault_{Fault::kNone};
  std::atomic<bool> cannot_open_{false};
  std::atomic<int> calls_{0};
  ClusterWatch watch_{"g0"};
};

TEST_F(ClusterWatchTest, BeforeItHasReadTheMapIsWhatItBeganWith) {
  EXPECT_EQ(watch_.Map(), "");
  watch_.Begin(record_);
  EXPECT_EQ(watch_.Map(), head_ + own_ + others_);
  EXPECT_EQ(watch_.groups(), 3u);
}

TEST_F(ClusterWatchTest, ReadsTheClustersRecordAndTheGroups) {
  Write("g1", Of(2, "1024-2046", {"shm:///c"}));
  Start();
  Await(head_ + own_ + "group g1 2\nmember shm:///c\nslots 1024 2046\ngroup g2 0\n");
  ASSERT_TRUE(kv::ClusterMap::Decode(watch_.Map()).ok());
  // Expect: changes of other groups, and groups that enter, appear in the map.
  Write("g1", Of(3, "1024-2046", {"shm:///d", "shm:///c"}));
  record_.groups.push_back({"g3", *kv::ParseSlots("4095")});
  Write("kv", EncodeClusterRecord(record_));
  Await(head_ + own_ +
        "group g1 3\nmember shm:///d\nmember shm:///c\nslots 1024 2046\ngroup g2 0\ngroup g3 0\nslots 4095 4095\n");
  EXPECT_EQ(watch_.groups(), 4u);
}

// The directory's record of its own group does not matter.
TEST_F(ClusterWatchTest, ItsOwnGroupIsAsItIsNow) {
  Write("g0", Of(3, "0-1023", {"shm:///z"}));
  Start();
  Await(head_ + own_ + others_);
  watch_.SetOwn(Of(5, "0-1023", {"shm:///b"}));
  EXPECT_EQ(watch_.Map(), head_ + "group g0 5\nmember shm:///b\nslots 0 1023\n" + others_);
}

TEST_F(ClusterWatchTest, ADirectoryThatDoesNotAnswerChangesNothing) {
  Start();
  Await(head_ + own_ + others_);
  fault_ = Fault::kRequestLost;
  Write("g1", Of(2, "1024-2047", {"shm:///c"}));
  AwaitCalls(10);
  EXPECT_EQ(watch_.Map(), head_ + own_ + others_);
  fault_ = Fault::kNone;
  Await(head_ + own_ + "group g1 2\nmember shm:///c\nslots 1024 2047\ngroup g2 0\n");
}

TEST_F(ClusterWatchTest, ADirectoryThatCannotBeOpenedIsTriedAgain) {
  cannot_open_ = true;
  Start();
  EXPECT_EQ(watch_.Map(), "");
  cannot_open_ = false;
  Await(head_ + own_ + others_);
}

TEST_F(ClusterWatchTest, OldAnswersTakeNothingBack) {
  Write("g1", Of(2, "1024-2047", {"shm:///c"}));
  Write("g1", Of(3, "1024-2047", {"shm:///d"}));
  record_.groups.push_back({"g3", {}});
  Write("kv", EncodeClusterRecord(record_));
  Start();
  const std::string map = head_ + own_ + "group g1 3\nmember shm:///d\nslots 1024 2047\ngroup g2 0\ngroup g3 0\n";
  Await(map);
  fault_ = Fault::kOld;
  AwaitCalls(10);
  EXPECT_EQ(watch_.Map(), map);
}

TEST_F(ClusterWatchTest, ASlotThatTwoClaimIsOfOne) {
  Write("g1", Of(2, "1000-2047,3000", {"shm:///c"}));
  Write("g2", Of(3, "2047,3000-3001", {"shm:///e"}));
  Start();
  // Expect: this server's own group has what it claims; among others the higher epoch has it.
  Await(head_ + own_ +
        "group g1 2\nmember shm:///c\nslots 1024 2046\n"
        "group g2 3\nmember shm:///e\nslots 2047 2047\nslots 3000 3001\n");
  EXPECT_TRUE(kv::ClusterMap::Decode(watch_.Map()).ok());
}

// The taker's record may have been read before it contained the slots: clients find no gap in the map meanwhile.
TEST_F(ClusterWatchTest, SlotsThatAreGivenAreTheTakersAlreadyAndWhoHasLeftIsNotThere) {
  Write("g1", Of(2, "1024-2047", {"shm:///c"}));
  Configuration giver = Of(3, "2048-4000", {"shm:///e"});
  giver.moves = {{.id = 8, .kind = cluster::Move::Kind::kGiven, .group = "g1", .slots = *kv::ParseSlots("4001-4095")},
                 {.id = 9, .kind = cluster::Move::Kind::kTaking, .group = "g1", .slots = *kv::ParseSlots("1024")}};
  Write("g2", giver);
  Start();
  Await(head_ + own_ + "group g1 2\nmember shm:///c\nslots 1024 2047\nslots 4001 4095\n" +
        "group g2 3\nmember shm:///e\nslots 2048 4000\n");
  record_.groups[1].has_left = true;
  Write("kv", EncodeClusterRecord(record_));
  Await(head_ + own_ + "group g2 3\nmember shm:///e\nslots 2048 4000\n");
}

TEST_F(ClusterWatchTest, AGroupThatSaysThatItIsOfAnotherClusterHasNotBegun) {
  Write("g1", Of(2, "1024-2047", {"shm:///c"}, "other"));
  Write("g2", "no record");
  Start();
  Await(head_ + own_ + others_);
}

TEST_F(ClusterWatchTest, WithoutARecordThereIsNoMapAndItGoesOnToLook) {
  ClusterWatch watch{"g0"};
  watch.SetOwn(Of(4, "0-1023", {"shm:///a"}, "none"));
  watch.Start(
      [this]() -> absl::StatusOr<std::unique_ptr<cluster::Directory>> {
        return std::make_unique<SimulatedDirectory>(&records_, [this] {
          ++calls_;
          return Fault::kNone;
        });
      },
      absl::Milliseconds(1));
  AwaitCalls(5);
  EXPECT_EQ(watch.Map(), "");
}

}  // namespace
}  // namespace farlook::server
