// A lone server with --memory_file is killed at any moment, again and again, while clients write. This process records
// what was acknowledged, and judges: nothing acknowledged is lost, no write is executed twice, no version is repeated.
//
//     restart_test --rounds=N
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "farlook/client.h"
#include "farlook/stats.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

ABSL_FLAG(int, rounds, 6, "how often the server is killed");

namespace farlook {
namespace {

constexpr int kWriters = 3;
constexpr int kKeys = 1500;  // of each writer; more in later rounds
constexpr int kCounters = 20;
constexpr int64_t kTimeoutMs = 60'000;

std::string ValueOf(uint64_t number) {
  // Some are updated in place, some need other blocks, some are pulled.
  const size_t length = number % 61 == 0 ? 20'000 : number * 7919 % (number % 7 == 0 ? 3000 : 200);
  std::string value = absl::StrCat(number, "-");
  while (value.size() < length) absl::StrAppend(&value, number * value.size(), ".");
  return value;
}

// Options of a client whose operations wait for a server that is gone.
ClientOptions Waiting() {
  ClientOptions options;
  options.timeout_ms = kTimeoutMs;
  options.wait_for_server = true;
  return options;
}

// Returns whether it is unknown if the write was executed.
bool IsOpen(const absl::Status& status) { return absl::IsUnknown(status); }

// One client's keys, and what each may hold: one thing, or several after a write with an unknown outcome.
class Writer {
 public:
  Writer(int number, const std::string& address)
      : number_(number), address_(address), random_(static_cast<unsigned>(number)) {
    client_ = MustConnect(address, Waiting());
  }

  Client* client() { return client_.get(); }
  const std::vector<uint64_t>& versions() const { return versions_; }
  uint64_t writes() const { return writes_; }

  void Run(const std::atomic<bool>& stop, int keys) {
    while (!stop.load() && !::testing::Test::HasFailure()) {
      const uint64_t choice = random_() % 100;
      const std::string key = absl::StrCat("w", number_, "-", random_() % static_cast<unsigned>(keys));
      const std::string counter = absl::StrCat("c", number_, "-", random_() % kCounters);
      if (choice < 55) {
        Put(key);
      } else if (choice < 68) {
        Delete(key);
      } else if (choice < 80) {
        Check(client_.get(), key);
      } else if (choice < 97) {
        Add(counter, /*exactly_once=*/choice % 2 == 0);
      } else {
        DeleteCounter(counter);
      }
    }
  }

  // Reads everything, with a client that knew the former server or with a new one.
  void CheckAll(bool with_new_client) {
    const auto other = with_new_client ? MustConnect(address_, Waiting()) : nullptr;
    Client* const client = with_new_client ? other.get() : client_.get();
    for (const auto& [key, may] : values_) Check(client, key);
    for (const auto& [key, may] : counters_) CheckCounter(client, key);
  }

 private:
  std::set<uint64_t>& Values(const std::string& key) { return values_.try_emplace(key, Absent()).first->second; }
  std::set<int64_t>& Numbers(const std::string& key) {
    return counters_.try_emplace(key, std::set<int64_t>{0}).first->second;  // absent: as 0, since adds create it so
  }
  static std::set<uint64_t> Absent() { return {0}; }

  void Put(const std::string& key) {
    const uint64_t number = ++next_;
    const absl::StatusOr<uint64_t> version = client_->Put(key, ValueOf(number));
    if (version.ok()) {
      Values(key) = {number};
      versions_.push_back(*version);
      ++writes_;
    } else {
      ASSERT_TRUE(IsOpen(version.status())) << key << ": " << version.status();
      Values(key).insert(number);
    }
  }

  void Delete(const std::string& key) {
    std::set<uint64_t>& may = Values(key);
    const absl::Status status = client_->Delete(key);
    if (IsOpen(status)) {
      may.insert(0);
      return;
    }
    ASSERT_TRUE(status.ok() || absl::IsNotFound(status)) << key << ": " << status;
    ASSERT_TRUE(absl::IsNotFound(status) ? may.contains(0) : may != Absent()) << key << ": " << status;
    may = Absent();
    ++writes_;
  }

  void Check(Client* client, const std::string& key) {
    std::set<uint64_t>& may = Values(key);
    const absl::StatusOr<Value> value = client->Get(key);
    ASSERT_TRUE(value.ok() || absl::IsNotFound(value.status())) << key << ": " << value.status();
    const uint64_t number = value.ok() ? std::strtoull(value->data.c_str(), nullptr, 10) : 0;
    ASSERT_TRUE(may.contains(number)) << key << " holds " << number << ", and not " << *may.begin();
    if (number != 0) {
      ASSERT_EQ(value->data, ValueOf(number)) << key;
    }
    may = {number};
  }

  void Add(const std::string& key, bool exactly_once) {
    std::set<int64_t>& may = Numbers(key);
    const absl::StatusOr<int64_t> before = client_->FetchAdd(key, 1, {.exactly_once = exactly_once, .create = true});
    if (before.ok()) {
      ASSERT_TRUE(may.contains(*before)) << key << " held " << *before << ", and not " << *may.begin();
      may = {*before + 1};
      ++writes_;
      return;
    }
    ASSERT_TRUE(IsOpen(before.status())) << key << ": " << before.status();
    std::set<int64_t> more;
    for (const int64_t number : may) more.insert(number + 1);
    may.merge(more);
  }

  void DeleteCounter(const std::string& key) {
    std::set<int64_t>& may = Numbers(key);
    const absl::StatusOr<int64_t> last = client_->DeleteCounter(key);
    if (IsOpen(last.status())) {
      may.insert(0);
      return;
    }
    ASSERT_TRUE(last.ok() || absl::IsNotFound(last.status())) << key << ": " << last.status();
    ASSERT_TRUE(may.contains(last.ok() ? *last : 0)) << key << ": " << last.status();
    may = {0};
    ++writes_;
  }

  void CheckCounter(Client* client, const std::string& key) {
    std::set<int64_t>& may = Numbers(key);
    const absl::StatusOr<int64_t> number = client->ReadCounter(key);
    ASSERT_TRUE(number.ok() || absl::IsNotFound(number.status())) << key << ": " << number.status();
    ASSERT_TRUE(may.contains(number.ok() ? *number : 0)) << key << " holds " << number.value_or(0);
    may = {number.value_or(0)};
  }

  const int number_;
  const std::string address_;
  std::mt19937 random_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::set<uint64_t>> values_;  // numbers of puts; 0: absent
  std::map<std::string, std::set<int64_t>> counters_;
  std::vector<uint64_t> versions_;
  uint64_t next_ = 0;
  uint64_t writes_ = 0;
};

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() {
    char folder[] = "/dev/shm/farlook-restart-XXXXXX";
    folder_ = mkdtemp(folder);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--memory=64MiB", "--counter_memory=64KiB", "--workers=2", absl::StrCat("--memory_file=", folder_, "/table")});
  }
  ~RestartTest() override {
    server_.reset();
    const std::string command = absl::StrCat("rm -rf ", folder_);
    EXPECT_EQ(system(command.c_str()), 0);
  }
  void Kill() {
    server_->Signal(SIGKILL);
    server_->Wait();
    server_->Restart();
  }

  std::string folder_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(RestartTest, AKilledServerLosesNothingThatWasAcknowledged) {
  std::mt19937 random(std::random_device{}());
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(std::make_unique<Writer>(i, server_->address()));
  const uint64_t incarnation = writers[0]->client()->incarnation();
  const int rounds = absl::GetFlag(FLAGS_rounds);
  for (int round = 1; round <= rounds && !HasFailure(); ++round) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    const int keys = kKeys + kKeys / 2 * std::min(round, 4);  // the index grows
    for (const auto& writer : writers) threads.emplace_back([&, keys] { writer->Run(stop, keys); });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    Kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    for (const auto& writer : writers) writer->CheckAll(/*with_new_client=*/round % 2 == 0);
  }
  std::set<uint64_t> versions;
  size_t puts = 0;
  uint64_t writes = 0;
  for (const auto& writer : writers) {
    EXPECT_EQ(writer->client()->incarnation(), incarnation);
    EXPECT_EQ(writer->client()->stats().incarnation_changes, 0u);
    versions.insert(writer->versions().begin(), writer->versions().end());
    puts += writer->versions().size();
    writes += writer->writes();
  }
  EXPECT_EQ(versions.size(), puts);  // none is repeated
  EXPECT_GT(writes, static_cast<uint64_t>(rounds));
  EXPECT_GT(ServerStat(writers[0]->client(), "restarted_keys"), 0);
  EXPECT_NE(writers[0]->client()->ServerStats()->find("restart_kind warm"), std::string::npos);
  std::printf("%d rounds, %llu writes acknowledged\n", rounds, static_cast<unsigned long long>(writes));
}

// Such a session may have written what its client sends again, so it is not taken for one that only read.
TEST_F(RestartTest, ASessionOfTheFormerServerIsNotResumed) {
  const auto client = MustConnect(server_->address(), Waiting());
  ASSERT_TRUE(client->Put("a", "1").ok());
  Kill();
  const absl::Status status = client->Put("a", "2").status();
  EXPECT_TRUE(status.ok() || IsOpen(status)) << status;
  EXPECT_TRUE(client->Put("a", "3").ok());
  EXPECT_EQ(ServerStat(client.get(), "resumed"), 0);
  EXPECT_EQ(ServerStat(client.get(), "refused_resumptions"), 1);
  EXPECT_EQ(client->stats().incarnation_changes, 0u);
}

}  // namespace
}  // namespace farlook

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
