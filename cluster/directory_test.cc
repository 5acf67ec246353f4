// The contract of directory.h, tested for each implementation.
#include "cluster/directory.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cluster/etcd_directory.h"
#include "cluster/etcd_process.h"
#include "cluster/file_directory.h"
#include "cluster/simulated_directory.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

// Makes several directories with the same records, as several servers would have them.
class Maker {
 public:
  virtual ~Maker() = default;
  virtual std::unique_ptr<Directory> Make() = 0;
};

class FileMaker final : public Maker {
 public:
  FileMaker() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  std::unique_ptr<Directory> Make() override {
    auto directory = FileDirectory::Open(folder_);
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  }

 private:
  std::string folder_ = testing::TempDir() + "/files_XXXXXX";
};

class EtcdMaker final : public Maker {
 public:
  explicit EtcdMaker(size_t members) : processes_(members) {}
  std::unique_ptr<Directory> Make() override {
    auto directory = EtcdDirectory::Create({.endpoints = processes_.endpoints(), .timeout = absl::Seconds(20)});
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  }

 private:
  EtcdProcesses processes_;
};

class SimulatedMaker final : public Maker {
 public:
  std::unique_ptr<Directory> Make() override {
    return std::make_unique<SimulatedDirectory>(&records_, [] { return SimulatedDirectory::Fault::kNone; });
  }

 private:
  SimulatedRecords records_;
};

using MakeMaker = std::function<std::unique_ptr<Maker>()>;

class DirectoryTest : public testing::TestWithParam<std::pair<const char*, MakeMaker>> {
 protected:
  const std::unique_ptr<Maker> maker_ = GetParam().second();
  const std::unique_ptr<Directory> directory_ = maker_->Make();
};

// The directories that wait: all but the simulated one.
class WaitingTest : public DirectoryTest {};

constexpr absl::Duration kLong = absl::Minutes(2);

TEST_P(DirectoryTest, WhatNobodyWroteIsAbsent) {
  for (const Freshness freshness : {Freshness::kLatest, Freshness::kMaybeOld}) {
    const absl::StatusOr<Entry> entry = directory_->Get("g", freshness);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->revision, 0);
  }
}

TEST_P(DirectoryTest, ComparesAndSwaps) {
  const std::string bytes("\0\xff any", 6);
  EXPECT_EQ(directory_->Cas("g", 7, "x").outcome, CasOutcome::kConflict);
  const CasResult first = directory_->Cas("g", 0, bytes);
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  EXPECT_GT(first.revision, 0);
  EXPECT_EQ(directory_->Cas("g", 0, "x").outcome, CasOutcome::kConflict);
  // Expect: another server sees it, and changes it.
  const std::unique_ptr<Directory> other = maker_->Make();
  absl::StatusOr<Entry> entry = other->Get("g", Freshness::kLatest);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->revision, first.revision);
  EXPECT_EQ(entry->value, bytes);
  const CasResult second = other->Cas("g", first.revision, "");
  ASSERT_EQ(second.outcome, CasOutcome::kDone) << second.why;
  EXPECT_GT(second.revision, first.revision);
  EXPECT_EQ(directory_->Cas("g", first.revision, "late").outcome, CasOutcome::kConflict);
  entry = directory_->Get("g", Freshness::kLatest);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->revision, second.revision);
  EXPECT_EQ(entry->value, "");
}

TEST_P(DirectoryTest, RecordsAreApart) {
  const std::string longest(kMaxRecordBytes, 'x');
  ASSERT_EQ(directory_->Cas("g", 0, "short").outcome, CasOutcome::kDone);
  ASSERT_EQ(directory_->Cas("g.1", 0, longest).outcome, CasOutcome::kDone);
  ASSERT_EQ(directory_->Cas("g1", 0, "third").outcome, CasOutcome::kDone);
  EXPECT_EQ(directory_->Get("g", Freshness::kLatest)->value, "short");
  EXPECT_EQ(directory_->Get("g.1", Freshness::kLatest)->value, longest);
  EXPECT_EQ(directory_->Get("g1", Freshness::kLatest)->value, "third");
}

TEST_P(DirectoryTest, RefusesWhatIsNoName) {
  for (const char* const name : {"", ".", "../g", "a/b", ".hidden", "a b", "\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(directory_->Get(name, Freshness::kLatest).status())) << name;
    const CasResult result = directory_->Cas(name, 0, "x");
    EXPECT_EQ(result.outcome, CasOutcome::kNotDone) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(result.why)) << name;
  }
  EXPECT_EQ(directory_->Cas("g", 0, std::string(kMaxRecordBytes + 1, 'x')).outcome, CasOutcome::kNotDone);
  EXPECT_EQ(directory_->Get(std::string(128, 'g'), Freshness::kLatest)->revision, 0);
}

TEST_P(DirectoryTest, WaitsForAChange) {
  const CasResult first = directory_->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  // Expect: a change that has already happened is returned at once.
  absl::StatusOr<Entry> entry = directory_->Wait("g", 0, kLong);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "one");
  // Expect: without a change it ends; a change of another record does not count.
  ASSERT_EQ(directory_->Cas("h", 0, "other").outcome, CasOutcome::kDone);
  EXPECT_TRUE(absl::IsDeadlineExceeded(directory_->Wait("g", first.revision, absl::Milliseconds(20)).status()));
  // Expect: a change while it waits ends it.
  std::thread writer([this, &first] {
    absl::SleepFor(absl::Milliseconds(30));
    const std::unique_ptr<Directory> other = maker_->Make();
    EXPECT_EQ(other->Cas("g", first.revision, "two").outcome, CasOutcome::kDone);
  });
  entry = directory_->Wait("g", first.revision, kLong);
  writer.join();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "two");
}

// A server that ends does not wait for it; one that lost its primary asks again at once.
TEST_P(WaitingTest, AWaitIsInterrupted) {
  const CasResult first = directory_->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  for (int i = 0; i < 3; ++i) {
    std::thread other([this, i] {
      absl::SleepFor(absl::Milliseconds(30 * i));  // before the wait, or while it is under way
      directory_->Interrupt();
    });
    if (i == 0) other.join();
    EXPECT_TRUE(absl::IsCancelled(directory_->Wait("g", first.revision, kLong).status()));
    if (i != 0) other.join();
  }
  // Expect: each ends one only.
  EXPECT_TRUE(absl::IsDeadlineExceeded(directory_->Wait("g", first.revision, absl::Milliseconds(20)).status()));
  const CasResult second = directory_->Cas("g", first.revision, "two");
  ASSERT_EQ(second.outcome, CasOutcome::kDone) << second.why;
  EXPECT_EQ(directory_->Wait("g", first.revision, kLong)->value, "two");
}

TEST_P(DirectoryTest, WaitingForARecordThatIsNotThereYet) {
  std::thread writer([this] {
    absl::SleepFor(absl::Milliseconds(30));
    EXPECT_EQ(maker_->Make()->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  });
  const absl::StatusOr<Entry> entry = directory_->Wait("g", 0, kLong);
  writer.join();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "one");
}

TEST_P(DirectoryTest, ARecordThatWentBackIsALoss) {
  ASSERT_EQ(directory_->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  const absl::Status status = directory_->Wait("g", 1'000'000, kLong).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST_P(DirectoryTest, OneOfManyWins) {
  constexpr int kServers = 4, kRounds = 10;
  std::vector<int> wins(kServers);
  std::vector<std::thread> servers;
  servers.reserve(kServers);
  for (int server = 0; server < kServers; ++server) {
    servers.emplace_back([this, server, &wins] {
      const std::unique_ptr<Directory> directory = maker_->Make();
      // Each counts up; a round ends when one of them succeeded.
      for (;;) {
        const absl::StatusOr<Entry> entry = directory->Get("g", Freshness::kLatest);
        ASSERT_TRUE(entry.ok()) << entry.status();
        const int count = entry->value.empty() ? 0 : std::stoi(entry->value);
        if (count == kRounds) return;
        const CasResult result = directory->Cas("g", entry->revision, std::to_string(count + 1));
        ASSERT_TRUE(result.outcome == CasOutcome::kDone || result.outcome == CasOutcome::kConflict) << result.why;
        if (result.outcome == CasOutcome::kDone) ++wins[server];
      }
    });
  }
  for (std::thread& server : servers) server.join();
  int all = 0;
  for (const int count : wins) all += count;
  EXPECT_EQ(all, kRounds);
}

const std::pair<const char*, MakeMaker> kMakers[] = {
    {"files", [] { return std::make_unique<FileMaker>(); }},
    {"etcd", [] { return std::make_unique<EtcdMaker>(1); }},
    {"etcd_of_three", [] { return std::make_unique<EtcdMaker>(3); }},
    {"simulated", [] { return std::make_unique<SimulatedMaker>(); }},
};

INSTANTIATE_TEST_SUITE_P(All, WaitingTest, testing::ValuesIn(kMakers, kMakers + 3),
                         [](const auto& maker) { return std::string(maker.param.first); });

INSTANTIATE_TEST_SUITE_P(All, DirectoryTest, testing::ValuesIn(kMakers),
                         [](const auto& maker) { return std::string(maker.param.first); });

}  // namespace
}  // namespace farlook::cluster
