// Failures of etcd, with real processes of it.
#include "cluster/etcd_directory.h"

#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cluster/etcd_process.h"
#include "cluster/loopback_server.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

constexpr absl::Duration kLong = absl::Minutes(2);

std::unique_ptr<EtcdDirectory> Make(const std::vector<std::string>& endpoints,
                                    absl::Duration timeout = absl::Seconds(2)) {
  auto directory =
      EtcdDirectory::Create({.endpoints = endpoints, .timeout = timeout, .watch_turn = absl::Milliseconds(500)});
  EXPECT_TRUE(directory.ok()) << directory.status();
  return *std::move(directory);
}

// A compare-and-swap as rule 2 requires it: repeated until the outcome is certain. Returns whether `value` is the
// record.
bool Settle(EtcdDirectory* directory, uint64_t expected, const std::string& value) {
  for (const absl::Time end = absl::Now() + kLong; absl::Now() < end;) {
    if (directory->Cas("g", expected, value).outcome == CasOutcome::kDone) return true;
    const absl::StatusOr<Entry> entry = directory->Get("g", Freshness::kLatest);
    if (entry.ok() && entry->revision != expected) return entry->value == value;
  }
  ADD_FAILURE() << "not settled";
  return false;
}

TEST(EtcdDirectory, WantsEndpoints) {
  EXPECT_TRUE(absl::IsInvalidArgument(EtcdDirectory::Create({}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(EtcdDirectory::Create({.endpoints = {"localhost:2379"}}).status()));
}

TEST(EtcdDirectory, NobodyThereIsUnavailableAndNothingWasDone) {
  const std::unique_ptr<EtcdDirectory> directory = Make({"http://127.0.0.1:1", "http://127.0.0.1:2"});
  const absl::Status status = directory->Get("g", Freshness::kLatest).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("127.0.0.1:2"), absl::string_view::npos) << status;
  const CasResult result = directory->Cas("g", 0, "x");
  EXPECT_EQ(result.outcome, CasOutcome::kNotDone);
  EXPECT_TRUE(absl::IsUnavailable(result.why)) << result.why;
  EXPECT_TRUE(absl::IsUnavailable(directory->Wait("g", 0, absl::Milliseconds(100)).status()));
}

TEST(EtcdDirectory, WhatIsNotEtcdIsRefused) {
  for (const char* const body :
       {"", "hello", "[]", "null", "{}", R"({"header":{"cluster_id":7}})", R"({"header":[],"kvs":3})"}) {
    const LoopbackServer impostor(body);
    const std::unique_ptr<EtcdDirectory> directory = Make({impostor.endpoint()}, absl::Seconds(60));
    const absl::StatusOr<Entry> entry = directory->Get("g", Freshness::kLatest);
    const bool is_header = absl::string_view(body).find("cluster_id") != absl::string_view::npos;
    EXPECT_EQ(entry.ok(), is_header) << body;
    if (!is_header) {
      EXPECT_TRUE(absl::IsInvalidArgument(entry.status())) << entry.status();
    }
  }
  const LoopbackServer record(R"({"header":{"cluster_id":"7"},"kvs":[{"mod_revision":"5","value":"?"}]})");
  EXPECT_TRUE(
      absl::IsInvalidArgument(Make({record.endpoint()}, absl::Seconds(60))->Get("g", Freshness::kLatest).status()));
}

TEST(EtcdDirectory, WhoDoesNotCompareIsRefusedBeforeAnythingIsWritten) {
  const LoopbackServer impostor(R"({"header":{"cluster_id":"7","revision":"9"},"succeeded":true})");
  const CasResult result = Make({impostor.endpoint()}, absl::Seconds(60))->Cas("g", 0, "x");
  EXPECT_EQ(result.outcome, CasOutcome::kNotDone);
  EXPECT_TRUE(absl::IsFailedPrecondition(result.why)) << result.why;
}

TEST(EtcdDirectory, AStoppedMemberCostsOneTimeLimit) {
  EtcdProcesses etcd(3);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints());
  ASSERT_TRUE(Settle(directory.get(), 0, "one"));
  uint64_t revision = directory->Get("g", Freshness::kLatest)->revision;
  for (size_t member = 0; member < 3; ++member) {  // the leader is one of them
    etcd.Signal(member, SIGSTOP);
    // Expect: each server finds its way to the others, whichever it asked before.
    const std::string value = absl::StrCat("without ", member);
    EXPECT_TRUE(Settle(directory.get(), revision, value));
    const absl::StatusOr<Entry> entry = directory->Wait("g", revision, kLong);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->value, value);
    revision = entry->revision;
    etcd.Signal(member, SIGCONT);
    etcd.AwaitHealthy();
  }
}

// A time limit of an hour is never reached: only a shorter one, of the answers, goes on to the next endpoint.
TEST(EtcdDirectory, ASlowEndpointIsNotAwaitedWhereAnotherAnswers) {
  EtcdProcesses etcd(1);
  const LoopbackServer silent;
  auto directory = *EtcdDirectory::Create({.endpoints = {etcd.endpoints()[0], silent.endpoint()},
                                           .timeout = absl::Hours(1),
                                           .watch_turn = absl::Milliseconds(100)});
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  // Expect: each watch that ends goes to the other endpoint, and back.
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(directory->Wait("g", first.revision, absl::Milliseconds(50)).status()));
  }
  EXPECT_TRUE(Settle(directory.get(), first.revision, "two"));
  EXPECT_EQ(directory->Get("g", Freshness::kLatest)->value, "two");
}

TEST(EtcdDirectory, AWatchOutlivesTheMemberThatItListensTo) {
  EtcdProcesses etcd(3);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints());
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  std::thread writer([&etcd, &first] {
    absl::SleepFor(absl::Milliseconds(200));
    etcd.Signal(0, SIGSTOP);
    const std::unique_ptr<EtcdDirectory> other = Make({etcd.endpoints()[1], etcd.endpoints()[2]});
    EXPECT_TRUE(Settle(other.get(), first.revision, "two"));
  });
  const absl::StatusOr<Entry> entry = directory->Wait("g", first.revision, kLong);
  writer.join();
  etcd.Signal(0, SIGCONT);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "two");
}

TEST(EtcdDirectory, WithoutAQuorumNothingIsCertainButOldAnswers) {
  EtcdProcesses etcd(3);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints());
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  const size_t leader = etcd.Leader();
  for (size_t member = 0; member < 3; ++member) {
    if (member != leader) etcd.Signal(member, SIGSTOP);
  }
  const std::unique_ptr<EtcdDirectory> alone = Make({etcd.endpoints()[leader]}, absl::Seconds(1));
  // Expect: a read of the latest state ends, without an answer, once the others have stopped.
  absl::Status latest;
  while (latest.ok()) latest = alone->Get("g", Freshness::kLatest).status();
  EXPECT_TRUE(absl::IsUnavailable(latest)) << latest;
  // Expect: a read that may be old is answered.
  const absl::StatusOr<Entry> old = alone->Get("g", Freshness::kMaybeOld);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->value, "one");
  // Expect: a compare-and-swap of a client that has checked this member before is unknown.
  const CasResult second = directory->Cas("g", first.revision, "two");
  EXPECT_NE(second.outcome, CasOutcome::kDone);
  EXPECT_NE(second.outcome, CasOutcome::kConflict);
  for (size_t member = 0; member < 3; ++member) {
    if (member != leader) etcd.Signal(member, SIGCONT);
  }
  etcd.AwaitHealthy();
  // Expect: repeating it shows whether it was done in the end.
  EXPECT_TRUE(Settle(directory.get(), first.revision, "two"));
}

TEST(EtcdDirectory, AnAnswerThatIsTooLateIsUnknown) {
  EtcdProcesses etcd(1);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints(), absl::Seconds(1));
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  etcd.Signal(0, SIGSTOP);
  const CasResult second = directory->Cas("g", first.revision, "two");
  EXPECT_EQ(second.outcome, CasOutcome::kUnknown);
  EXPECT_FALSE(second.why.ok());
  etcd.Signal(0, SIGCONT);
  // Expect: the request was in the stopped process's socket all the time, and is done or not; repeating it settles
  // that.
  EXPECT_TRUE(Settle(directory.get(), first.revision, "two"));
}

TEST(EtcdDirectory, CompactionHidesNothing) {
  EtcdProcesses etcd(1);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints());
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  const CasResult other = directory->Cas("h", 0, "x");
  const CasResult last = directory->Cas("h", other.revision, "y");
  ASSERT_EQ(last.outcome, CasOutcome::kDone);
  etcd.Control(absl::StrCat("compaction ", last.revision));
  // Expect: a client that knows an older revision still waits for the next one.
  EXPECT_TRUE(absl::IsDeadlineExceeded(directory->Wait("g", first.revision, absl::Milliseconds(200)).status()));
  std::thread writer([&etcd, &first] {
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(Make(etcd.endpoints())->Cas("g", first.revision, "two").outcome, CasOutcome::kDone);
  });
  const absl::StatusOr<Entry> entry = directory->Wait("g", first.revision, kLong);
  writer.join();
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->value, "two");
}

TEST(EtcdDirectory, AWipedClusterIsALossAndNotEmpty) {
  EtcdProcesses etcd(1);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints(), absl::Seconds(20));
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  etcd.Wipe();
  // It has the same cluster id: etcd derives that from the members' addresses and the token.
  const absl::Status status = directory->Get("g", Freshness::kLatest).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  const CasResult second = directory->Cas("g", 0, "two");
  EXPECT_EQ(second.outcome, CasOutcome::kNotDone);
  EXPECT_TRUE(absl::IsDataLoss(second.why)) << second.why;
  EXPECT_TRUE(absl::IsDataLoss(directory->Wait("g", first.revision, kLong).status()));
}

TEST(EtcdDirectory, ARecordThatWasDeletedIsALoss) {
  EtcdProcesses etcd(1);
  const std::unique_ptr<EtcdDirectory> directory = Make(etcd.endpoints(), absl::Seconds(20));
  const CasResult first = directory->Cas("g", 0, "one");
  ASSERT_EQ(first.outcome, CasOutcome::kDone) << first.why;
  EXPECT_NE(etcd.Control("del farlook/g").find('1'), std::string::npos);
  EXPECT_TRUE(absl::IsDataLoss(directory->Wait("g", first.revision, kLong).status()));
}

TEST(EtcdDirectory, AMemberOfAnotherClusterIsLeftOut) {
  EtcdProcesses one(1), other(1, "other");
  const std::string ours = one.endpoints()[0], theirs = other.endpoints()[0];
  const uint64_t id = [&ours] {
    const std::unique_ptr<EtcdDirectory> directory = Make({ours}, absl::Seconds(20));
    EXPECT_TRUE(directory->Get("g", Freshness::kLatest).ok());
    return directory->cluster_id();
  }();
  auto directory =
      *EtcdDirectory::Create({.endpoints = {theirs, ours}, .timeout = absl::Seconds(20), .cluster_id = id});
  EXPECT_EQ(directory->Cas("g", 0, "one").outcome, CasOutcome::kDone);
  EXPECT_EQ(directory->Get("g", Freshness::kLatest)->value, "one");
  // Expect: it was not written there.
  EXPECT_EQ(Make({theirs}, absl::Seconds(20))->Get("g", Freshness::kLatest)->revision, 0);
  // Expect: if there is no other endpoint, that is the error.
  directory = *EtcdDirectory::Create({.endpoints = {theirs}, .timeout = absl::Seconds(20), .cluster_id = id});
  const absl::Status status = directory->Get("g", Freshness::kLatest).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

}  // namespace
}  // namespace farlook::cluster
