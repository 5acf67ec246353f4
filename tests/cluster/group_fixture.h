// For tests: a group of real kv_server processes, and clients whose writes show what was lost, or done twice.
#ifndef FARLOOK_TESTS_CLUSTER_GROUP_FIXTURE_H_
#define FARLOOK_TESTS_CLUSTER_GROUP_FIXTURE_H_

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

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

namespace farlook {

// An emulated adapter is slow.
inline const int kItems = std::getenv("FARLOOK_RDMA_ADDRESS") == nullptr ? 20'000 : 2'000;
inline constexpr int64_t kTimeoutMs = 60'000;

// Also over tcp://, where gets go by messages unless a test needs READs.
inline ClientOptions Reading(Fencing fencing = Fencing::kLease) {
  ClientOptions options;
  options.fencing = fencing;
  options.timeout_ms = kTimeoutMs;
  options.lookups = Lookups::kReads;
  return options;
}

// Counts in a key's value, each step only if the version is that of the step before: a write that is lost, or done
// twice, breaks the chain.
class Chain {
 public:
  // `fencing`: the reader's.
  Chain(const std::string& addresses, std::string key, Fencing fencing = Fencing::kLease)
      : key_(std::move(key)),
        writer_(MustConnect(addresses, Reading())),
        reader_(MustConnect(addresses, Reading(fencing))),
        write_thread_([this] { Write(); }),
        read_thread_([this] { Read(); }) {}
  ~Chain() { Stop(); }

  void Stop() {
    over_ = true;
    if (write_thread_.joinable()) write_thread_.join();
    if (read_thread_.joinable()) read_thread_.join();
  }
  uint64_t acknowledged() const { return acknowledged_; }
  // Waits for `steps` more.
  void Advance(uint64_t steps) {
    const uint64_t until = acknowledged_ + steps;
    while (acknowledged_ < until && failures_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  uint64_t Last() {
    auto value = writer_->Get(key_);
    uint64_t number = 0;
    EXPECT_TRUE(value.ok() && absl::SimpleAtoi(value->data, &number)) << value.status();
    return number;
  }
  int failures() const { return failures_; }
  uint64_t reads() const { return reads_; }

 private:
  void Write() {
    uint64_t version = 0;
    for (uint64_t number = 1; !over_ && failures_ == 0; ++number) {
      PutOptions options;
      options.condition = number == 1 ? Condition::IfAbsent() : Condition::IfVersion(version);
      auto put = writer_->Put(key_, absl::StrCat(number), options);
      if (!put.ok()) {
        ADD_FAILURE() << key_ << " " << number << ": " << put.status();
        ++failures_;
        return;
      }
      version = *put;
      acknowledged_ = number;
    }
  }
  void Read() {
    while (!over_ && failures_ == 0) {
      const uint64_t least = acknowledged_;
      if (least == 0) continue;
      auto value = reader_->Get(key_);
      uint64_t number = 0;
      if (!value.ok() || !absl::SimpleAtoi(value->data, &number) || number < least) {
        ADD_FAILURE() << key_ << " reads " << number << " after " << least << " was acknowledged: " << value.status();
        ++failures_;
        return;
      }
      ++reads_;
    }
  }

  const std::string key_;
  const std::unique_ptr<Client> writer_, reader_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> acknowledged_{0}, reads_{0};
  std::atomic<int> failures_{0};
  std::thread write_thread_, read_thread_;
};

// Adds one to a counter, again and again, and advances another one by CompareSwap: a step that is lost, or done twice,
// shows.
class Tally {
 public:
  Tally(const std::string& addresses, std::string key)
      : added_(key + ".added"),
        swapped_(key + ".swapped"),
        client_(MustConnect(addresses, Reading())),
        thread_([this] { Count(); }) {}
  ~Tally() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void ExpectExact() {
    Stop();
    EXPECT_GT(steps_, 0);
    EXPECT_EQ(client_->ReadCounter(added_).value_or(-1), steps_);
    EXPECT_EQ(client_->ReadCounter(swapped_).value_or(-1), steps_);
    EXPECT_EQ(client_->stats().atomics, 0u) << "in a group nobody changes a counter in place";
    EXPECT_TRUE(client_->DeleteCounter(added_).ok());
    EXPECT_EQ(client_->ReadCounter(added_).status().code(), absl::StatusCode::kNotFound);
  }

 private:
  void Count() {
    EXPECT_TRUE(client_->CreateCounter(added_).ok());
    EXPECT_TRUE(client_->CreateCounter(swapped_).ok());
    while (!over_) {
      const auto added = client_->FetchAdd(added_, 1);
      const auto swapped = client_->CompareSwap(swapped_, steps_, steps_ + 1);
      if (added.value_or(-1) != steps_ || swapped.value_or(-1) != steps_) {
        ADD_FAILURE() << "after " << steps_ << " steps: " << added.status() << " " << added.value_or(-1) << ", "
                      << swapped.status() << " " << swapped.value_or(-1);
        return;
      }
      ++steps_;
    }
  }

  const std::string added_, swapped_;
  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false};
  int64_t steps_ = 0;
  std::thread thread_;
};

// Puts items with a short ttl, and checks them: none ends early, none is there long after its time, and none that was
// not found is found again.
class Mortals {
 public:
  explicit Mortals(const std::string& addresses)
      : client_(MustConnect(addresses, Reading())), thread_([this] { Live(); }) {}
  ~Mortals() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Expect() {
    Stop();
    EXPECT_GT(ended_.size(), 0u);
    for (const std::string& key : ended_) EXPECT_EQ(client_->Get(key).status().code(), absl::StatusCode::kNotFound);
    for (int i = 0; i < touched_; ++i) {
      const auto ttl_ms = client_->Ttl(absl::StrCat("touched", i));
      ASSERT_TRUE(ttl_ms.ok()) << ttl_ms.status();
      EXPECT_GT(*ttl_ms, 3'000'000);
      EXPECT_LE(*ttl_ms, 3'600'000 + kLate.count()) << "a record's way may add to it";
      EXPECT_EQ(client_->Ttl(absl::StrCat("persisted", i)).value_or(-1), kForever);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTtl{200};
  // The delay that a backup's connection may add, and that of each refill.
  static constexpr std::chrono::milliseconds kLate{1000};

  void Live() {
    for (int i = 0; !over_; ++i) {
      const std::string key = absl::StrCat("mortal", i);
      PutOptions options;
      options.ttl_ms = kTtl.count();
      const auto asked = Clock::now();
      if (!Good(client_->Put(key, "v", options).status())) return;
      const auto done = Clock::now();
      options.ttl_ms = 300'000;  // longer than a failover on a busy machine
      if (!Good(client_->Put(absl::StrCat("touched", i), "v", options).status())) return;
      if (!Good(client_->Touch(absl::StrCat("touched", i), 3'600'000))) return;
      if (!Good(client_->Put(absl::StrCat("persisted", i), "v", options).status())) return;
      if (!Good(client_->Persist(absl::StrCat("persisted", i)))) return;
      touched_ = i + 1;
      for (bool is_there = true; is_there && !over_;) {
        const auto began = Clock::now();
        const auto value = client_->Get(key);
        is_there = value.ok();
        if (is_there && began > done + kTtl + kLate) return Bad("is there after its time");
        if (!is_there && !absl::IsNotFound(value.status())) return Bad(value.status().ToString());
        if (!is_there && Clock::now() < asked + kTtl) return Bad("ended early");
        if (!is_there) ended_.push_back(key);
      }
      if (!ended_.empty() && client_->Get(ended_[static_cast<size_t>(i) * 7 % ended_.size()]).ok()) {
        return Bad("came back");
      }
    }
  }
  bool Good(const absl::Status& status) {
    if (!status.ok()) Bad(status.ToString());
    return status.ok();
  }
  static void Bad(absl::string_view what) { ADD_FAILURE() << "an item with a ttl: " << what; }

  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false};
  std::vector<std::string> ended_;
  int touched_ = 0;
  std::thread thread_;
};
class GroupTest : public testing::Test {
 protected:
  // Even on a busy machine no member is silent for so long.
  explicit GroupTest(const std::string& suspicion = "10s", const std::string& group = "", int replicas = 2,
                     int min_insync = 1, const std::string& lease = "150ms")
      : suspicion_(suspicion), lease_(lease), replicas_(replicas), min_insync_(min_insync), group_(group) {
    char folder[] = "/tmp/farlook-group-XXXXXX";
    folder_ = mkdtemp(folder);
    if (group_.empty()) group_ = absl::StrCat("file://", folder_, "/g");
    a_ = Start();
    addresses_ = a_->address();
    client_ = MustConnect(addresses_, Reading());
    if (min_insync == 1) Load();
  }
  void Load() {
    for (int i = 0; i < kItems; ++i) {
      ASSERT_TRUE(client_->Put(absl::StrCat("item", i), absl::StrCat("value", i)).ok());
    }
  }
  ~GroupTest() override {
    a_.reset();
    b_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<ServerProcess> Start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--memory=64MiB",
                                      "--workers=2",
                                      absl::StrCat("--suspicion=", suspicion_),
                                      absl::StrCat("--lease=", lease_),
                                      absl::StrCat("--group=", group_),
                                      absl::StrCat("--replicas=", replicas_),
                                      absl::StrCat("--min_insync=", min_insync_)};
    flags.insert(flags.end(), more.begin(), more.end());
    return std::make_unique<ServerProcess>(std::move(flags));
  }
  void StartBackup(const std::vector<std::string>& more = {}) {
    b_ = Start(more);
    addresses_ = absl::StrCat(a_->address(), ",", b_->address());
    client_ = MustConnect(addresses_, Reading());  // which knows both
    AwaitBackup();
  }
  std::string Status() {
    auto status = GroupStatus(client_.get());
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : "";
  }
  // Waits until a backup is in sync, and follows.
  void AwaitBackup() {
    for (std::string status = Status(); !HasFailure(); status = Status()) {
      const bool in_sync = status.find("\nbackup ") != std::string::npos;
      if (in_sync && status.find(" disconnected") == std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void AwaitStatus(absl::string_view part, bool is_there) {
    while ((Status().find(std::string(part)) != std::string::npos) != is_there && !HasFailure()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  bool IsPrimary(const ServerProcess& server) {
    return Status().find(absl::StrCat("\nprimary ", server.address(), " ")) != std::string::npos;
  }
  void ExpectAllItems() {
    for (int i = 0; i < kItems; ++i) {
      auto value = client_->Get(absl::StrCat("item", i));
      ASSERT_TRUE(value.ok()) << i << ": " << value.status();
      ASSERT_EQ(value->data, absl::StrCat("value", i));
    }
  }
  void ExpectExact(Chain* chain) {
    chain->Stop();
    EXPECT_EQ(chain->failures(), 0);
    EXPECT_EQ(chain->Last(), chain->acknowledged());
    EXPECT_GT(chain->reads(), 0u);
  }

  const std::string suspicion_, lease_;
  const int replicas_, min_insync_;
  std::string group_, folder_;
  std::unique_ptr<ServerProcess> a_, b_;
  std::string addresses_;
  std::unique_ptr<Client> client_;
};

class StoppedGroupTest : public GroupTest {
 protected:
  StoppedGroupTest() : GroupTest("1s") {}
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_CLUSTER_GROUP_FIXTURE_H_
