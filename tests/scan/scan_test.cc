// Scans of a real kv_server: it takes no part, and whatever others write meanwhile, no key that stays is missing.
#include "farlook/scan.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "kv/layout/sanitized.h"
#include "rdma/test_address.h"
#include "tests/faults/server_process.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

const std::vector<std::string> kFlags = {"--memory=64MiB", "--counter_memory=0"};

// An emulated adapter is slow.
int Times(int count) { return rdma::TestsUseRdma() ? count / 10 : count; }

std::string Stay(int i) { return absl::StrCat("stay", i); }
std::string Churn(int i) { return absl::StrCat("churn", i); }

void PutAll(Client* client, const std::vector<std::string>& keys, const PutOptions& options = {.timeout_ms = 60'000}) {
  std::vector<std::string> values;
  for (const std::string& key : keys) values.push_back(SelfVerifying(key, 0));
  std::vector<Result<uint64_t>> results;
  const absl::Status status =
      client->MultiPut(std::vector<std::string_view>(keys.begin(), keys.end()),
                       std::vector<std::string_view>(values.begin(), values.end()), &results, options);
  ASSERT_TRUE(status.ok()) << status;
}

void PutStaying(Client* client, int count, const PutOptions& options = {.timeout_ms = 60'000}) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(Stay(i));
  PutAll(client, keys, options);
}

// Takes what a scan returns until its end, or `most` items. Each value must be one of its key.
void Take(Scanner* scanner, std::map<std::string, int>* found, int most = 1 << 30) {
  ScannedItem item;
  for (int i = 0; i < most; ++i) {
    const absl::StatusOr<bool> more = scanner->Next(&item);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) return;
    const std::string key(item.key);
    ASSERT_GE(Verify(key, {item.value.data(), item.value.size()}), 0)
        << key << " has " << item.value.size() << " bytes";
    ++(*found)[key];
  }
}

std::map<std::string, int> All(Client* client, ScanOptions options = {}) {
  options.values = true;
  options.timeout_ms = 60'000;
  Scanner scanner(client, options);
  std::map<std::string, int> found;
  Take(&scanner, &found);
  return found;
}

// Returns how many of the keys that stay are missing.
int Missing(const std::map<std::string, int>& found, int count) {
  int missing = 0;
  for (int i = 0; i < count; ++i) missing += found.count(Stay(i)) == 0;
  return missing;
}

TEST(ScanTest, AStoppedServerIsScanned) {
  const int count = Times(20'000);
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  PutStaying(client.get(), count);
  server.Signal(SIGSTOP);
  // Expect: all keys, each once, by a server that cannot run an instruction.
  const auto found = All(client.get(), {.prefix = "stay"});
  server.Signal(SIGCONT);
  EXPECT_EQ(found.size(), static_cast<size_t>(count));
  for (const auto& [key, times] : found) EXPECT_EQ(times, 1) << key;
}

TEST(ScanTest, ARateIsKept) {
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  PutStaying(client.get(), 100);
  const auto begun = std::chrono::steady_clock::now();
  // Two steps at least, of a segment that is READ twice: more than 64 KiB each.
  EXPECT_EQ(All(client.get(), {.batch_bytes = 4096, .bytes_per_s = 1 << 20}).size(), 100u);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(62));
}

// Writes until it is destroyed: the table grows and shrinks, and the values that stay change their lengths.
class Writers {
 public:
  Writers(const std::string& address, int staying, int churning)
      : grower_([this, address, churning] { Grow(address, churning); }),
        overwriter_([this, address, staying] { Overwrite(address, staying); }) {}
  ~Writers() {
    over_ = true;
    grower_.join();
    overwriter_.join();
  }
  int rounds() const { return rounds_; }

 private:
  void Grow(const std::string& address, int churning) {
    auto client = MustConnect(address);
    while (!over_) {
      for (int i = 0; i < churning && !over_; i += 100) {
        std::vector<std::string> keys;
        for (int k = i; k < i + 100; ++k) keys.push_back(Churn(k));
        PutAll(client.get(), keys);
      }
      for (int i = 0; i < churning && !over_; ++i) (void)client->Delete(Churn(i), {.timeout_ms = 60'000});
      ++rounds_;
    }
  }
  void Overwrite(const std::string& address, int staying) {
    auto client = MustConnect(address);
    std::mt19937 random(20261128);
    for (uint64_t sequence = 1; !over_; ++sequence) {
      const std::string key = Stay(static_cast<int>(random() % static_cast<unsigned>(staying)));
      const auto put = client->Put(key, SelfVerifying(key, sequence), {.timeout_ms = 60'000});
      ASSERT_TRUE(put.ok()) << put.status();
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<int> rounds_{0};
  std::thread grower_, overwriter_;
};

TEST(ScanTest, KeysThatStayAreFoundWhileTheTableGrowsAndShrinks) {
  const int count = Times(2'000), churning = Times(20'000);
  ServerProcess server({"--memory=128MiB", "--counter_memory=0", "--workers=2"});
  auto client = MustConnect(server.address());
  PutStaying(client.get(), count);
  int scans = 0;
  {
    const Writers writers(server.address(), count, churning);
    for (; writers.rounds() < (kv::kSanitized ? 1 : 3) || scans < 6; ++scans) {
      const auto found = All(client.get(), {.batch_bytes = scans % 2 == 0 ? size_t{16} << 10 : size_t{1} << 20});
      ASSERT_EQ(Missing(found, count), 0) << "scan " << scans;
    }
  }
  EXPECT_GT(ServerStat(client.get(), "splits"), 0);
}

TEST(ScanTest, ACursorContinuesInAnotherClientWhileTheTableGrowsAndShrinks) {
  const int count = Times(2'000), churning = Times(20'000);
  ServerProcess server({"--memory=128MiB", "--counter_memory=0", "--workers=2"});
  auto client = MustConnect(server.address());
  auto other = MustConnect(server.address());
  PutStaying(client.get(), count);
  const Writers writers(server.address(), count, churning);
  std::map<std::string, int> found;
  std::string cursor;
  while (cursor != "end") {
    std::swap(client, other);
    Scanner scanner(client.get(), {.values = true, .cursor = cursor, .limit = 97, .timeout_ms = 60'000});
    Take(&scanner, &found);
    if (HasFatalFailure()) return;
    cursor = scanner.cursor();
  }
  EXPECT_EQ(Missing(found, count), 0);
}

bool HasEvicted(Client* client) {
  for (const char* kind : {"small", "medium", "large", "run"}) {
    if (ServerStat(client, absl::StrCat(kind, "_evictions")) > 0) return true;
  }
  return false;
}

TEST(ScanTest, KeptItemsAreFoundWhileOthersAreEvicted) {
  const int count = Times(500);
  ServerProcess server({"--memory=32MiB", "--counter_memory=0", "--evict"});
  auto client = MustConnect(server.address());
  PutStaying(client.get(), count, {.timeout_ms = 60'000, .keep = true});
  std::atomic<bool> over{false};
  std::thread writer([&server, &over] {
    auto writing = MustConnect(server.address());
    for (int i = 0; !over; ++i) {
      const std::string key = Churn(i);
      ASSERT_TRUE(writing->Put(key, SelfVerifying(key, 0), {.timeout_ms = 60'000}).ok());
    }
  });
  for (int scan = 0; scan < 5 || !HasEvicted(client.get()); ++scan) {
    const auto found = All(client.get());
    EXPECT_EQ(Missing(found, count), 0) << "scan " << scan;
    if (HasFailure()) break;
  }
  over = true;
  writer.join();
}

// The table of a server that restarts is empty, and hashes keys in another way.
TEST(ScanTest, AfterARestartTheKeysAreThoseOfTheNewTable) {
  const int count = Times(2'000);
  ServerProcess server(kFlags);
  auto client = MustConnect(server.address());
  std::vector<std::string> former;
  for (int i = 0; i < count; ++i) former.push_back(Churn(i));
  PutAll(client.get(), former);
  Scanner scanner(client.get(), {.values = true, .batch_bytes = 4096, .timeout_ms = 60'000});
  std::map<std::string, int> found;
  Take(&scanner, &found, count / 2);
  const std::string cursor = scanner.cursor();
  server.Signal(SIGKILL);
  server.Wait();
  server.Restart();
  PutStaying(MustConnect(server.address()).get(), count);
  Take(&scanner, &found);
  EXPECT_EQ(Missing(found, count), 0);
  EXPECT_EQ(Missing(All(client.get(), {.cursor = cursor}), count), 0);
}

}  // namespace
}  // namespace farlook
