// Clients of a group of three servers, of which one is ended, killed or stopped: the rows of "Events" in
// docs/cluster.md. //bench/cluster:stalls measures how long they wait. Here only what a busy machine cannot change
// is expected: the order of events, and the reason for which the primary removed a member.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cluster/etcd_process.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/cluster/three_servers_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

// A client with the default deadline, which puts and gets in turn. Counts its errors.
class Worker {
 public:
  Worker(const std::string& addresses, std::string key, Lookups lookups)
      : key_(std::move(key)), client_(MustConnect(addresses, OptionsOf(lookups))), thread_([this] { Work(); }) {}
  ~Worker() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const std::vector<std::string>& errors() const { return errors_; }  // REQUIRES Stop()
  int calls() const { return calls_; }

 private:
  static ClientOptions OptionsOf(Lookups lookups) {
    ClientOptions options;
    options.lookups = lookups;
    return options;
  }
  void Work() {
    while (!over_) {
      if (auto put = client_->Put(key_, "value"); !put.ok()) errors_.push_back(put.status().ToString());
      if (auto get = client_->Get(key_); !get.ok()) errors_.push_back(get.status().ToString());
      ++calls_;
    }
  }

  const std::string key_;
  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false};
  std::atomic<int> calls_{0};
  std::vector<std::string> errors_;
  std::thread thread_;
};

// The longest time for which this machine did not run a thread that was due.
class PauseMeter {
 public:
  PauseMeter() : thread_([this] { Measure(); }) {}
  ~PauseMeter() {
    over_ = true;
    thread_.join();
  }
  absl::Duration longest() const { return absl::Milliseconds(longest_ms_.load()); }

 private:
  void Measure() {
    while (!over_) {
      const absl::Time begin = absl::Now();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      longest_ms_ = std::max(longest_ms_.load(), absl::ToInt64Milliseconds(absl::Now() - begin));
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<int64_t> longest_ms_{0};
  std::thread thread_;
};

// The file to which the servers log. Constructed before the servers, and destroyed after them.
class ServerLog {
 public:
  ServerLog() {
    std::remove(path_.c_str());
    ServerProcess::LogTo(path_);
  }
  ~ServerLog() {
    ServerProcess::LogTo("");
    if (testing::Test::HasFailure()) std::fputs(Text().c_str(), stderr);
  }
  // Returns how often a backup was removed for this reason.
  int CountRemovals(absl::string_view reason) const {
    int count = 0;
    for (const absl::string_view line : absl::StrSplit(Text(), '\n')) {
      count += absl::StrContains(line, "msg=\"removing a backup from the group\"") &&
               absl::StrContains(line, absl::StrCat("reason=\"", reason, "\""));
    }
    return count;
  }

 private:
  std::string Text() const {
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/events_", getpid(), ".log");
};

class EventsTest : protected ServerLog, public ThreeServersTest {
 protected:
  // No member is suspected because of its silence.
  explicit EventsTest(const std::string& suspicion = "10m", const std::string& group = "")
      : ThreeServersTest(suspicion, 3, 1, group) {}

  // Waits until all three are members, and know it: each has accepted a record of the present epoch.
  void AwaitMembers() {
    AwaitBackups(2);
    EXPECT_TRUE(client_->Put("key", "value").ok());
  }
  bool HasTwoMembers() { return absl::StrContains(Status(), "\nmembers 2 of 3"); }
  // Sends the signal to backup C, some times, each time until the record lacks it.
  void AwaitRemovals(int signal, int times) {
    for (int i = 0; i < times && !HasFailure(); ++i) {
      AwaitMembers();
      c_->Signal(signal);
      while (!HasTwoMembers() && !HasFailure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (signal == SIGSTOP) {
        c_->Signal(SIGCONT);
        continue;
      }
      c_->Wait();
      c_->Restart();
    }
    AwaitBackups(2);
  }
};

// Its end is no trouble: nothing is counted for which there is an alert.
TEST_F(EventsTest, ABackupThatIsToEndIsRemovedBeforeItEnds) {
  for (int i = 0; i < 3; ++i) {
    AwaitMembers();
    c_->Signal(SIGTERM);
    EXPECT_EQ(c_->Wait(), 0);
    EXPECT_TRUE(HasTwoMembers()) << Status();
    EXPECT_TRUE(client_->Put("key", "value").ok());
    c_->Restart();
  }
  AwaitBackups(2);
  EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 0);
  ExpectAllItems();
}

// One that might connect again has half a second, and is removed for another reason.
TEST_F(EventsTest, ABackupThatIsKilledIsNotWaitedFor) {
  AwaitRemovals(SIGKILL, 5);
  EXPECT_EQ(CountRemovals("its process has ended"), 5);
  EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 5);
  ExpectAllItems();
}

class ImpatientTest : public EventsTest {
 protected:
  ImpatientTest() : EventsTest("300ms") {}
};

// It is removed while a write waits for it, and while none does. A backup that only accepts nothing has three seconds,
// and is removed for another reason.
TEST_F(ImpatientTest, ABackupThatIsSilentIsRemovedAfterTheSuspicion) {
  AwaitRemovals(SIGSTOP, 3);
  EXPECT_EQ(CountRemovals("it is silent"), 3);
  Chain chain(addresses_, "chain");
  chain.Advance(20);
  AwaitRemovals(SIGSTOP, 3);
  EXPECT_EQ(CountRemovals("it is silent"), 6);
  chain.Advance(20);
  ExpectExact(&chain);
  ExpectAllItems();
}

// Returns how often a thread of the process slept so far.
int64_t SleepsOf(pid_t pid, absl::string_view thread) {
  int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    std::ifstream file(task.path() / "status");
    bool is_it = false;
    for (std::string line; std::getline(file, line);) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      if (words.size() < 2) continue;
      if (words[0] == "Name:") is_it = words[1] == thread;
      int64_t count = 0;
      if (is_it && words[0] == "voluntary_ctxt_switches:" && absl::SimpleAtoi(words[1], &count)) sleeps += count;
    }
  }
  return sleeps;
}

// It wakes about 60 times a second, and not 500 times. A busy machine makes it fewer.
TEST_F(ImpatientTest, AnIdleMemberSleeps) {
  for (const ServerProcess* const server : {a_.get(), b_.get(), c_.get()}) {
    const absl::Time begin = absl::Now();
    const int64_t before = SleepsOf(server->pid(), "group");
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const auto sleeps = static_cast<double>(SleepsOf(server->pid(), "group") - before);
    EXPECT_GT(sleeps, 0);
    EXPECT_LT(sleeps / absl::ToDoubleSeconds(absl::Now() - begin), 250);
  }
}

// A round in which the machine itself stood still, so that calls took longer than their deadlines, is repeated.
TEST_F(EventsTest, ARollingRestartCostsNoCall) {
  bool stood_still = true;
  for (int round = 0; stood_still && !HasFailure(); ++round) {
    const PauseMeter meter;
    std::vector<std::unique_ptr<Worker>> workers;
    for (const Lookups lookups : {Lookups::kAuto, Lookups::kReads}) {
      workers.push_back(std::make_unique<Worker>(addresses_, absl::StrCat("key", workers.size()), lookups));
    }
    // Backups first, as docs/cluster.md says.
    for (ServerProcess* const server :
         {&Primary() == c_.get() ? a_.get() : c_.get(), &Primary() == b_.get() ? a_.get() : b_.get(), &Primary()}) {
      AwaitMembers();
      server->Signal(SIGTERM);
      EXPECT_EQ(server->Wait(), 0);
      server->Restart();
    }
    AwaitMembers();
    std::vector<std::string> errors;
    for (const auto& worker : workers) {
      worker->Stop();
      EXPECT_GT(worker->calls(), 100);
      errors.insert(errors.end(), worker->errors().begin(), worker->errors().end());
    }
    stood_still = !errors.empty() && meter.longest() > absl::Milliseconds(200);
    EXPECT_TRUE(errors.empty() || stood_still) << errors.size() << ": " << errors.front();
  }
  ExpectAllItems();
}

// Constructed before the servers, and destroyed after them.
struct Etcd {
  cluster::EtcdProcesses etcd{1};
};

// The record is in etcd, as between hosts: no lock reports the end of a process.
class EventsBetweenHostsTest : private Etcd, public EventsTest {
 protected:
  EventsBetweenHostsTest() : EventsTest("10m", "etcd://" + etcd.endpoints()[0].substr(strlen("http://")) + "/g") {}

  using Etcd::etcd;
};

TEST_F(EventsBetweenHostsTest, ABackupThatEndsOrIsKilledIsNotWaitedFor) {
  AwaitMembers();
  c_->Signal(SIGTERM);
  EXPECT_EQ(c_->Wait(), 0);
  EXPECT_TRUE(HasTwoMembers()) << Status();
  EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 0);
  c_->Restart();
  AwaitRemovals(SIGKILL, 5);
  EXPECT_EQ(CountRemovals("its process has ended"), 5);
  ExpectAllItems();
}

// It cannot be removed from a record that cannot be changed. So it ends after a while, and is removed later.
TEST_F(EventsBetweenHostsTest, WithoutEtcdABackupEndsAllTheSame) {
  AwaitMembers();
  etcd.Signal(0, SIGSTOP);
  EXPECT_TRUE(client_->Put("key", "value").ok());
  EXPECT_TRUE(client_->Get("key").ok());
  c_->Signal(SIGTERM);
  EXPECT_EQ(c_->Wait(), 0);
  AwaitStatus(" disconnected for ", true);
  etcd.Signal(0, SIGCONT);
  EXPECT_TRUE(client_->Put("key", "later").ok());
  EXPECT_TRUE(HasTwoMembers()) << Status();
  ExpectAllItems();
}

}  // namespace
}  // namespace farlook
