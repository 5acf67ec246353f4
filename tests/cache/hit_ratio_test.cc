// Cache mode, through a real server and real clients: hit ratios against caches that know of every get, items with
// `keep`, and the figures.
//
// At full length (FARLOOK_FULL_LENGTH): a million keys. See docs/verification.md.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/common/cache_trace.h"
#include "bench/common/reference_caches.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "server/base/log.h"
#include "server/daemon/server.h"

namespace farlook {
namespace {

class CacheModeTest : public testing::Test {
 protected:
  void Start(uint64_t bytes, bool evict = true) {
    server::SetLogLevel(server::LogLevel::kNone);
    server::ServerOptions options;
    options.listen = {rdma::UnusedTestAddress()};
    options.memory_bytes = bytes;
    options.counter_memory_bytes = 1 << 20;
    options.max_value_bytes = 4 << 20;
    options.huge_pages = rdma::HugePages::kNone;
    options.evict = evict;
    server_ = *server::Server::Start(options);
    client_ = Connect();
  }
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.timeout_ms = 60'000;
    return *Client::Connect(server_->addresses()[0], options);
  }
  void TearDown() override {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
  }
  int64_t Figure(std::string_view name) {
    const std::string text = client_->ServerStats().value_or("");
    const size_t at = ("\n" + text).find(absl::StrCat("\n", std::string(name), " "));
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 1));
  }

  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> client_;
};

class ServerCache {
 public:
  ServerCache(Client* client, size_t value_bytes) : client_(client), value_(value_bytes, 'v') {}
  bool Get(uint64_t key) { return client_->Get(std::to_string(key), &got_).ok(); }
  void Put(uint64_t key, bool refill) {
    ASSERT_TRUE(client_->Put(std::to_string(key), value_, {.refill = refill}).ok());
  }

 private:
  Client* const client_;
  const std::string value_;
  Value got_;
};

TEST_F(CacheModeTest, HitsAsOftenAsCachesThatKnowOfEveryGet) {
  const bool full = std::getenv("FARLOOK_FULL_LENGTH") != nullptr;
  const uint64_t keys = full ? 1'000'000 : 60'000, steps = full ? 10'000'000 : 120'000;
  // The variation of short runs, since hints arrive at any time.
  const double slack = full ? 0 : 1;
  for (const bench::CacheWorkload& workload : bench::CacheWorkloads(keys)) {
    const auto items = static_cast<uint64_t>(static_cast<double>(keys) * workload.share);
    if (!full && workload.share < .05) continue;  // the smallest region holds more
    // Long enough for the region not to be mostly reserve.
    const uint64_t value_bytes = full ? 1000 : std::min<uint64_t>(3900, (40 << 20) / items);
    Start(std::max<uint64_t>(items * (value_bytes * 17 / 16 + 120) + (4 << 20), 32 << 20));
    ServerCache ours(client_.get(), value_bytes);
    const double hits = bench::HitRatio(workload, steps, ours);
    const auto capacity = static_cast<size_t>(Figure("keys"));
    const double lru = bench::HitRatio(workload, steps, bench::LruCache(capacity));
    const double s3 = bench::HitRatio(workload, steps, bench::S3FifoCache(capacity));
    std::printf("%-16s %7zu items: %.1f %%, LRU %.1f, S3-FIFO %.1f; told %.1f, sample %lld\n", workload.name, capacity,
                hits, lru, s3,
                100.0 * static_cast<double>(Figure("reported_hits")) / static_cast<double>(Figure("reported_gets")),
                static_cast<long long>(Figure("touch_sample")));
    std::fflush(stdout);
    EXPECT_GE(hits, lru - .5 - slack) << workload.name;
    EXPECT_GE(hits, s3 - 3.5 - slack) << workload.name;
    TearDown();
  }
}

TEST_F(CacheModeTest, KeptItemsAndCountersStay) {
  Start(32 << 20);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client_->Put(absl::StrCat("kept", i), std::string(1000, 'k'), {.keep = true}).ok());
    ASSERT_TRUE(client_->CreateCounter(absl::StrCat("counter", i), i).ok());
  }
  const auto first = client_->Put("evicted", "v");
  ASSERT_TRUE(first.ok());
  for (int i = 0; i < 45'000; ++i) ASSERT_TRUE(client_->Put(absl::StrCat(i), std::string(1000, 'v')).ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(client_->Get(absl::StrCat("kept", i)).ok());
    EXPECT_EQ(client_->ReadCounter(absl::StrCat("counter", i)).value_or(-1), i);
  }
  const absl::Status swapped = client_->Put("evicted", "w", {.condition = Condition::IfVersion(*first)}).status();
  EXPECT_TRUE(absl::IsNotFound(swapped)) << swapped;
  EXPECT_GT(Figure("small_evictions"), 10'000);
  EXPECT_GE(Figure("small_eviction_age_ms"), 0);
  EXPECT_EQ(Figure("evict"), 1);
}

TEST_F(CacheModeTest, ClientsTellWhatTheyGet) {
  Start(32 << 20);
  ASSERT_TRUE(client_->Put("k", "v").ok());
  const int64_t before = Figure("reported_hits"), touches = Figure("touches");
  ClientOptions options;
  options.read_only = true;
  const auto reader = Connect(options);
  // One message has 500 slots, of every fourth hit.
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(reader->Get("k").ok());
  int64_t reported = 0;
  for (int looks = 0; looks < 10'000 && reported < 8'000; ++looks) reported = Figure("reported_hits") - before;
  EXPECT_GE(reported, 8'000);
  EXPECT_LE(reported, 10'000);
  EXPECT_GE(Figure("touches") - touches, reported / 5);
  EXPECT_EQ(Figure("ignored_touches"), 0);
}

TEST_F(CacheModeTest, InAStoreNobodyTells) {
  Start(32 << 20, /*evict=*/false);
  ASSERT_TRUE(client_->Put("k", "v", {.keep = true, .refill = true}).ok());
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(client_->Get("k").ok());
  EXPECT_EQ(Figure("requests_touched"), 0);
  EXPECT_EQ(Figure("evict"), 0);
  EXPECT_EQ(Figure("touch_sample"), -1) << "it is a cache's";
}

}  // namespace
}  // namespace farlook
