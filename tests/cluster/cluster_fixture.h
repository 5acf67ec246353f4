// For tests: a cluster of real kv_server processes, and clients that write chains.
#ifndef FARLOOK_TESTS_CLUSTER_CLUSTER_FIXTURE_H_
#define FARLOOK_TESTS_CLUSTER_CLUSTER_FIXTURE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

namespace farlook {

// Groups kv.0, kv.1, ... of cluster kv, whose directory is a folder.
class ClusterFixture : public testing::Test {
 public:
  static constexpr int64_t kTimeoutMs = 60'000;
  static constexpr int kKeys = 2'000;

 protected:
  ClusterFixture() {
    std::string directory = absl::StrCat(testing::TempDir(), "/clusterXXXXXX");
    directory_ = mkdtemp(directory.data());
  }
  ~ClusterFixture() override {
    servers_.clear();
    std::filesystem::remove_all(directory_);
  }

  std::vector<std::string> Flags(int group, const std::string& slots) const {
    return {"--memory=64MiB", absl::StrCat("--group=file://", directory_, "/kv.", group), "--cluster=kv",
            absl::StrCat("--slots=", slots)};
  }
  ServerProcess* Start(int group, const std::string& slots, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = Flags(group, slots);
    flags.insert(flags.end(), more.begin(), more.end());
    servers_.push_back(std::make_unique<ServerProcess>(flags));
    return servers_.back().get();
  }
  // Returns an address for a farlook:// URL.
  static std::string Seed(const ServerProcess& server) {
    absl::string_view address = server.address();
    if (!absl::ConsumePrefix(&address, "shm://")) address.remove_prefix(address.find("://") + 3);
    return std::string(address);
  }
  static ClientOptions Waiting() {
    ClientOptions options;
    options.timeout_ms = kTimeoutMs;
    options.wait_for_server = true;
    return options;
  }
  std::unique_ptr<Client> ConnectBy(const std::string& address) {
    auto client = Client::Connect(address, Waiting());
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  // Returns a figure of one group.
  static int64_t Stat(Client* client, const std::string& group, absl::string_view name) {
    auto text = client->ServerStats({.group = group});
    EXPECT_TRUE(text.ok()) << text.status();
    if (!text.ok()) return -1;
    int64_t number = -1;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      if (absl::ConsumePrefix(&line, absl::StrCat(name, " ")) && absl::SimpleAtoi(line, &number)) break;
    }
    return number;
  }
  static std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) keys.push_back(absl::StrCat("key", i));
    return keys;
  }

  // Waits until a group has `members` members.
  static void AwaitMembers(Client* client, const std::string& group, int members) {
    const std::string wanted = absl::StrCat("members ", members, " of ");
    while (!absl::StrContains(GroupStatus(client, {.group = group}).value_or(""), wanted)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::string directory_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

// Steps of a key's value, each on condition of the one before: a step that is lost, or done twice, shows.
class Steps {
 public:
  Steps(std::unique_ptr<Client> client, std::string key)
      : key_(std::move(key)), client_(std::move(client)), thread_([this] { Run(); }) {}
  ~Steps() { Stop(); }
  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Advance(uint64_t steps) {
    const uint64_t until = done_ + steps;
    while (done_ < until && !failed_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  uint64_t done() const { return done_; }
  bool failed() const { return failed_; }

 private:
  void Run() {
    uint64_t version = 0;
    while (!over_ && !failed_) {
      const uint64_t number = done_ + 1;
      const auto put = client_->Put(key_, absl::StrCat(number),
                                    {.condition = number == 1 ? Condition::IfAbsent() : Condition::IfVersion(version)});
      const auto got = client_->Get(key_);
      failed_ = !put.ok() || !got.ok() || got->data != absl::StrCat(number) || got->version != *put;
      if (failed_) ADD_FAILURE() << key_ << " " << number << ": " << put.status() << ", " << got.status();
      if (put.ok()) version = *put;
      ++done_;
    }
  }

  const std::string key_;
  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false}, failed_{false};
  std::atomic<uint64_t> done_{0};
  std::thread thread_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_CLUSTER_CLUSTER_FIXTURE_H_
