// Scans by the public class: filters, limits, cursors, writers and broken connections between.
#include "farlook/scan.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/api/client_testing.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/test_address.h"

namespace farlook {
namespace {

class ScannerTest : public ClientTest {
 protected:
  ScannerTest() {
    client_ = Connect();
    for (int i = 0; i < kKeys; ++i) Put(i);
  }
  void Put(int i) {
    EXPECT_TRUE(client_->Put(Key(i), std::string(static_cast<size_t>(i), 'v')).ok());
    keys_.insert(Key(i));
  }
  static std::string Key(int i) { return absl::StrCat(i % 2 == 0 ? "even:" : "odd:", i); }

  // Returns the keys in the order in which they were found.
  std::vector<std::string> All(Scanner* scanner) {
    std::vector<std::string> keys;
    ScannedItem item;
    absl::StatusOr<bool> found;
    while ((found = scanner->Next(&item)).ok() && *found) keys.emplace_back(item.key);
    EXPECT_TRUE(found.ok()) << found.status();
    return keys;
  }
  std::vector<std::string> All(const ScanOptions& options = {}) {
    Scanner scanner(client_.get(), options);
    return All(&scanner);
  }

  static constexpr int kKeys = 1000;
  ThreadedServer server_{address_, 1};
  std::unique_ptr<Client> client_;
  std::set<std::string> keys_;
};

TEST_F(ScannerTest, EachKeyIsReturnedOnceWithItsProperties) {
  ASSERT_TRUE(client_->Put("even:brief", "b", {.ttl_ms = 3'600'000, .keep = true}).ok());
  ASSERT_TRUE(client_->CreateCounter("odd:count", 5).ok());
  Scanner scanner(client_.get(), {.values = true});
  std::set<std::string> seen;
  ScannedItem item;
  EXPECT_EQ(scanner.progress(), 0);
  while (*scanner.Next(&item)) {
    const std::string key(item.key);
    EXPECT_TRUE(seen.insert(key).second) << key;
    EXPECT_EQ(item.counter, key == "odd:count");
    if (item.counter) continue;
    const auto got = client_->Get(key);
    ASSERT_TRUE(got.ok()) << key;
    EXPECT_EQ(item.value, got->data);
    EXPECT_EQ(item.value_bytes, got->data.size());
    EXPECT_EQ(item.version, got->version);
    EXPECT_EQ(item.keep, key == "even:brief");
    EXPECT_EQ(item.left_ms == kForever, key != "even:brief");
    EXPECT_LE(item.left_ms == kForever ? 1 : item.left_ms, 3'600'000);
  }
  EXPECT_EQ(seen.size(), keys_.size() + 2);
  EXPECT_EQ(scanner.progress(), 1);
  EXPECT_EQ(scanner.cursor(), "end");
  EXPECT_FALSE(*scanner.Next(&item));
  EXPECT_TRUE(All({.cursor = "end"}).empty());
}

TEST_F(ScannerTest, OptionsFilter) {
  EXPECT_EQ(All({.prefix = "even:"}).size(), kKeys / 2);
  EXPECT_EQ(All({.prefix = "absent"}).size(), 0u);
  EXPECT_EQ(All({.limit = 7}).size(), 7u);
  EXPECT_EQ(All({.min_value_bytes = 900}).size(), 100u);
  EXPECT_EQ(All({.max_value_bytes = 9}).size(), 10u);
  EXPECT_EQ(All({.only_expiring = true}).size(), 0u);
  ScannedItem item;
  EXPECT_EQ(Scanner(client_.get(), {.batch_bytes = 1}).Next(&item).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* wrong : {"x", "1-2-3", "1-2-1-0", "1-0-1-0-0", "1-0--0", "1-0-10000000000000000-0"}) {
    EXPECT_EQ(Scanner(client_.get(), {.cursor = wrong}).Next(&item).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

// Each item by a scan of its own, which goes on where the last one was, over another connection.
TEST_F(ScannerTest, CursorsGoOnAfterTheLastItem) {
  // Each scan READs a segment twice, which takes long on an emulated adapter.
  for (const uint64_t limit : {rdma::TestsUseRdma() ? 20 : 1, 33}) {
    std::multiset<std::string> seen;
    std::string cursor;
    for (int i = 0; cursor != "end" && i < 2 * kKeys; ++i) {
      if (i % 100 == 0) client_ = Connect();
      Scanner scanner(client_.get(), {.cursor = cursor, .limit = limit, .batch_bytes = 4096});
      for (const std::string& key : All(&scanner)) seen.insert(key);
      cursor = scanner.cursor();
      if (seen.size() < keys_.size()) continue;
      // The limit is reached with the last item; only another call sees that nothing follows.
      EXPECT_EQ(All({.cursor = cursor}).size(), 0u);
      break;
    }
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), keys_);
    EXPECT_EQ(seen.size(), keys_.size()) << "each once";
  }
}

TEST_F(ScannerTest, GrowthAndLostConnectionsBetweenBatchesLoseNoKey) {
  const std::set<std::string> stay = keys_;
  Scanner scanner(client_.get(), {.batch_bytes = 4096});
  std::set<std::string> seen;
  ScannedItem item;
  int more = 0;
  for (int i = 0;; ++i) {
    ASSERT_LT(i, 100'000);
    const absl::StatusOr<bool> found = scanner.Next(&item);
    // Broken while it connected. Expect: the call may be repeated.
    if (absl::IsUnavailable(found.status())) continue;
    ASSERT_TRUE(found.ok()) << found.status();
    if (!*found) break;
    seen.emplace(item.key);
    if (i % 100 == 0) server_.BreakConnections();
    if (i % 10 == 0) {
      for (int k = 0; k < 30 && more < 20'000; ++k) {
        if (client_->Put(absl::StrCat("more", more), "m").ok()) ++more;
      }
    }
  }
  for (const std::string& key : stay) EXPECT_EQ(seen.count(key), 1u) << key;
}

TEST_F(ScannerTest, ACursorOfAnotherTableBeginsAgain) {
  const auto found = All({.cursor = "1-8000000000000000-ffffffffffffffff-0"});
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), keys_);
}

TEST_F(ScannerTest, AServerThatIsGoneIsReported) {
  server_.Stop();
  Scanner scanner(client_.get(), {.timeout_ms = 50});
  ScannedItem item;
  EXPECT_FALSE(scanner.Next(&item).ok());
}

}  // namespace
}  // namespace farlook
