// Groups of two and of three kv_server processes whose memory is full: they refuse new items, do all that needs no more
// room, and keep their members, also where these have unequal room. Keys are put, overwritten and deleted until nothing
// more fits, with values of several mixes of sizes. Handovers and kills come in between.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

class FullGroupTest : public GroupTest {
 protected:
  // No write is acknowledged that only one member has.
  explicit FullGroupTest(int replicas = 2) : GroupTest("10s", "", replicas, 2) {}

  // Values of all keys, by number. A value is the key's number and step, and then filler. Length 0: the key is absent.
  struct Key {
    uint32_t bytes = 0;
    uint32_t step = 0;
  };
  static std::string NameOf(size_t number) { return absl::StrCat("key", number); }
  std::string ValueOf(size_t number) const {
    std::string value = absl::StrCat(number, ".", keys_[number].step, ".");
    value.resize(keys_[number].bytes, 'v');
    return value;
  }

  // Puts the keys with these numbers, which have their new lengths. Returns how many were refused for lack of room;
  // these keep what they had.
  size_t Put(const std::vector<size_t>& numbers, const std::vector<Key>& former) {
    std::vector<std::string> names, values;
    for (const size_t number : numbers) {
      names.push_back(NameOf(number));
      values.push_back(ValueOf(number));
    }
    const std::vector<std::string_view> keys(names.begin(), names.end()), data(values.begin(), values.end());
    std::vector<Result<uint64_t>> results;
    client_->MultiPut(keys, data, &results).IgnoreError();  // each has its status
    size_t refused = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].status.ok()) continue;
      EXPECT_TRUE(absl::IsResourceExhausted(results[i].status)) << names[i] << ": " << results[i].status;
      keys_[numbers[i]] = former[i];
      ++refused;
    }
    return refused;
  }

  // Puts new keys with values of `least` to `most` bytes until most of them are refused.
  void Fill(uint32_t least, uint32_t most) {
    size_t refused = 0, added = 0;
    while (refused < kTogether / 2 && !HasFailure()) {
      std::vector<size_t> numbers;
      for (size_t i = 0; i < kTogether; ++i) {
        numbers.push_back(keys_.size());
        keys_.push_back({least + static_cast<uint32_t>(random_() % (most - least + 1)), 1});
      }
      refused = Put(numbers, std::vector<Key>(kTogether));
      added += kTogether - refused;
    }
    EXPECT_GT(added, 0u);
    ExpectWhole();
  }
  // Puts all keys again, with values as long as before or a little shorter. None may be refused.
  void Overwrite() {
    std::vector<size_t> numbers;
    std::vector<Key> former;
    const auto put = [&] {
      EXPECT_EQ(Put(numbers, former), 0u) << "an overwrite needs no more room";
      numbers.clear();
      former.clear();
    };
    for (size_t i = 0; i < keys_.size() && !HasFailure(); ++i) {
      if (keys_[i].bytes == 0) continue;
      numbers.push_back(i);
      former.push_back(keys_[i]);
      ++keys_[i].step;
      if (i % 3 == 0) keys_[i].bytes -= keys_[i].bytes / 16;
      if (numbers.size() == kTogether) put();
    }
    put();
    ExpectWhole();
  }
  // Deletes about every `nth` key, one after the other.
  void Delete(unsigned nth) {
    for (size_t i = 0; i < keys_.size() && !HasFailure(); ++i) {
      if (keys_[i].bytes == 0 || random_() % nth != 0) continue;
      const absl::Status status = client_->Delete(NameOf(i));
      EXPECT_TRUE(status.ok()) << status;
      keys_[i].bytes = 0;
    }
    ExpectWhole();
  }
  void ExpectAllValues() {
    for (size_t i = 0; i < keys_.size() && !HasFailure(); ++i) {
      const auto value = client_->Get(NameOf(i));
      if (keys_[i].bytes == 0) {
        EXPECT_TRUE(absl::IsNotFound(value.status())) << i << ": " << value.status();
      } else {
        EXPECT_TRUE(value.ok() && value->data == ValueOf(i)) << i << ": " << value.status();
      }
    }
  }
  // Expects that no member was lost.
  void ExpectWhole() {
    EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 0);
    EXPECT_EQ(ServerStat(client_.get(), "group_members"), replicas_);
  }

  static constexpr size_t kTogether = 64;  // keys of a batch
  std::mt19937 random_{1};
  std::vector<Key> keys_;
};

TEST_F(FullGroupTest, KeepsItsMembers) {
  StartBackup();
  Fill(600, 1'400);
  Overwrite();
  Delete(3);
  Fill(20, 9'000);
  // The backup takes over what it has, and the former primary is filled.
  ASSERT_TRUE(HandOver(client_.get()).ok());
  AwaitBackup();
  Overwrite();
  Delete(2);
  Fill(3'000, 40'000);
  Overwrite();
  ServerProcess& primary = IsPrimary(*a_) ? *a_ : *b_;
  primary.Signal(SIGKILL);
  primary.Wait();
  primary.Restart();
  AwaitBackup();
  ExpectAllValues();
  Fill(10'000, 300'000);
  Overwrite();
  Delete(2);
  Fill(100, 100);
  ExpectAllValues();
}

// The first server has the least room. Each of the others is the primary while the smallest one follows.
class UnequalGroupTest : public FullGroupTest {
 protected:
  UnequalGroupTest() : FullGroupTest(3) {}
  ~UnequalGroupTest() override { c_.reset(); }

  void StartBackups() {
    b_ = Start({"--memory=70MiB"});
    c_ = Start({"--memory=80MiB"});
    addresses_ = absl::StrCat(a_->address(), ",", b_->address(), ",", c_->address());
    client_ = MustConnect(addresses_, Reading());
    AwaitMembers();
  }
  // Waits until all are in sync, and follow.
  void AwaitMembers() {
    for (std::string status = Status(); !HasFailure(); status = Status()) {
      const bool whole = status.find("members 3 of 3") != std::string::npos;
      if (whole && status.find(" disconnected") == std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  // Hands over until this server is the primary.
  void MakePrimary(const ServerProcess& server) {
    while (!IsPrimary(server) && !HasFailure()) {
      ASSERT_TRUE(HandOver(client_.get()).ok());
      AwaitMembers();
    }
  }

  std::unique_ptr<ServerProcess> c_;
};

TEST_F(UnequalGroupTest, TheSmallestMemberDecides) {
  StartBackups();
  MakePrimary(*c_);
  Fill(600, 1'400);
  Overwrite();
  Delete(3);
  Fill(20, 9'000);
  // Its successor has no more room than the smallest one, either.
  ServerProcess& primary = *c_;
  primary.Signal(SIGKILL);
  primary.Wait();
  primary.Restart();
  AwaitMembers();
  Overwrite();
  Delete(2);
  MakePrimary(*b_);
  Fill(3'000, 100'000);
  Overwrite();
  MakePrimary(*a_);
  Overwrite();
  ExpectAllValues();
}

}  // namespace
}  // namespace farlook
