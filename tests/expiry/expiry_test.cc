// Items that expire, through real clients and a real server: the calls, and that histories are linearizable.
#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "tests/history/check.h"
#include "tests/history/history.h"

namespace farlook {
namespace {

class ExpiryTest : public testing::TestWithParam<Lookups> {
 protected:
  ExpiryTest() {
    server::SetLogLevel(server::LogLevel::kNone);
    server::ServerOptions options;
    options.listen = {rdma::UnusedTestAddress()};
    options.memory_bytes = 64 << 20;
    options.counter_memory_bytes = 1 << 20;
    options.workers = 2;
    options.huge_pages = rdma::HugePages::kNone;
    server_ = *server::Server::Start(options);
    client_ = Connect();
  }
  ~ExpiryTest() override {
    client_.reset();
    server_->Stop();
  }

  std::unique_ptr<Client> Connect() {
    return *Client::Connect(server_->addresses()[0], {.timeout_ms = 10'000, .lookups = GetParam()});
  }
  std::string Get(std::string_view key) {
    auto got = client_->Get(key);
    return got.ok() ? got->data : std::string(absl::StatusCodeToString(got.status().code()));
  }
  static void PassMs(int64_t ms) { usleep(static_cast<useconds_t>(ms * 1000)); }
  // The server's figure of this name.
  int64_t Figure(std::string_view name) {
    const std::string text = client_->ServerStats().value_or("");
    const size_t at = ("\n" + text).find(absl::StrCat("\n", std::string(name), " "));
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 1));
  }

  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_P(ExpiryTest, AnItemEndsItsTimeIsTouchedAndTakenAway) {
  auto put = client_->Put("k", "v", {.ttl_ms = 60});
  ASSERT_TRUE(put.ok()) << put.status();
  auto left = client_->Ttl("k");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_GE(*left, 1);
  EXPECT_LE(*left, 61);
  EXPECT_EQ(client_->Touch("k", 60'000), absl::OkStatus());
  PassMs(80);
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(client_->Get("k")->version, *put) << "a touch makes no version";
  EXPECT_GT(*client_->Ttl("k"), 50'000);
  EXPECT_EQ(client_->Persist("k"), absl::OkStatus());
  EXPECT_EQ(*client_->Ttl("k"), kForever);
  auto touched = client_->GetAndTouch("k", 20);
  ASSERT_TRUE(touched.ok()) << touched.status();
  EXPECT_EQ(touched->data, "v");
  EXPECT_EQ(touched->version, *put);
  PassMs(30);
  EXPECT_EQ(Get("k"), "NOT_FOUND");
  EXPECT_EQ(client_->Ttl("k").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Touch("k", 60'000).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Persist("k").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->GetAndTouch("k", 60'000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Put("k", "w", {.condition = Condition::IfPresent()}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client_->Put("k", "w", {.condition = Condition::IfAbsent()}).ok());
  EXPECT_EQ(*client_->Ttl("k"), kForever);
}

TEST_P(ExpiryTest, LongValuesToo) {
  const std::string value(100'000, 'v');
  EXPECT_TRUE(client_->Put("k", value, {.ttl_ms = 40'000}).ok());
  EXPECT_LE(*client_->Ttl("k"), 40'001);
  EXPECT_EQ(client_->GetAndTouch("k", 50)->data, value);
  PassMs(60);
  EXPECT_EQ(Get("k"), "NOT_FOUND");
}

TEST_P(ExpiryTest, KeepTtlAndBatches) {
  const std::vector<std::string_view> keys = {"a", "b", "c"}, values = {"1", "2", "3"};
  std::vector<Result<uint64_t>> results;
  EXPECT_EQ(client_->MultiPut(keys, values, &results, {.ttl_ms = 30'000}), absl::OkStatus());
  EXPECT_TRUE(client_->Put("a", "4", {.keep_ttl = true}).ok());
  EXPECT_LE(*client_->Ttl("a"), 30'001);
  EXPECT_TRUE(client_->Put("b", "4").ok());
  EXPECT_EQ(*client_->Ttl("b"), kForever);
  EXPECT_EQ(client_->MultiTouch(keys, 90'000, &results), absl::OkStatus());
  for (const std::string_view key : keys) EXPECT_GT(*client_->Ttl(key), 80'000);
  TtlOperation ttl("a");
  GetAndTouchOperation get("a", 50'000);
  TouchOperation touch("none", 50'000);
  AsyncOperation* const all[] = {&ttl, &get, &touch};
  client_->Start(all);
  AsyncOperation* done[4];
  for (size_t ended = 0; ended < 3;) ended += client_->Wait(done);
  EXPECT_GT(ttl.left_ms(), 40'000);
  EXPECT_EQ(get.value(), "4");
  EXPECT_EQ(touch.status().code(), absl::StatusCode::kNotFound);
}

TEST_P(ExpiryTest, WhatCannotBeIsRefused) {
  for (const int64_t ttl_ms : {int64_t{-1}, kMaxTtlMs + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(client_->Put("k", "v", {.ttl_ms = ttl_ms}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(client_->Touch("k", ttl_ms).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(client_->Touch("k", 0).message(), "a ttl of 0 ms: an item lives for 1 ms to 10 years");
  EXPECT_EQ(client_->GetAndTouch("k", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Put("k", "v", {.ttl_ms = 5, .keep_ttl = true}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_->Put("k", "v", {.ttl_ms = kMaxTtlMs}).ok());
  EXPECT_LE(*client_->Ttl("k"), kMaxTtlMs + 1);
  EXPECT_GT(*client_->Ttl("k"), kMaxTtlMs - 60'000);
}

TEST_P(ExpiryTest, TheSweepGivesMemoryBackSoon) {
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_TRUE(client_->Put(absl::StrCat("k", i), "v", {.ttl_ms = 100 + i % 400}).ok());
  }
  EXPECT_EQ(client_->CreateCounter("c", 1, {.ttl_ms = 200}), absl::OkStatus());
  const std::vector<std::string_view> counters = {"of a batch", "another"};
  std::vector<Result<int64_t>> created;
  EXPECT_EQ(client_->MultiCreateCounter(counters, std::vector<int64_t>{1, 2}, &created, {.ttl_ms = 200}),
            absl::OkStatus());
  EXPECT_TRUE(client_->Put("stays", "v").ok());
  // A hundredth of a slow server's time may need a while.
  for (int i = 0; i < 3'000 && (Figure("keys") > 1 || Figure("expirations") < 3'000); ++i) PassMs(20);
  EXPECT_EQ(Figure("keys"), 1);
  EXPECT_EQ(Figure("expirations"), 3'000);
  for (int i = 0; i < 3'000 && client_->ReadCounter("c").ok(); ++i) PassMs(20);
  EXPECT_EQ(client_->ReadCounter("c").status().code(), absl::StatusCode::kNotFound);
  for (const std::string_view counter : counters) {
    for (int i = 0; i < 3'000 && client_->ReadCounter(counter).ok(); ++i) PassMs(20);
    EXPECT_EQ(client_->ReadCounter(counter).status().code(), absl::StatusCode::kNotFound);
  }
}

// Puts with ttls of a few milliseconds, and gets around their ends, of several clients: each get is consistent with
// some moment within it.
TEST_P(ExpiryTest, HistoriesAreLinearizable) {
  using history::Operation;
  using history::Outcome;
  using history::Type;
  constexpr int kThreads = 3, kKeys = 4, kOperations = 1'500;
  constexpr int64_t kMsNs = 1'000'000;
  std::map<int, history::KeyHistory> histories;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const rdma::Clock& clock = rdma::Clock::Real();
      auto client = Connect();
      std::mt19937 random(static_cast<unsigned>(t));
      std::map<int, history::KeyHistory> own;
      for (int i = 0; i < kOperations; ++i) {
        const int key = static_cast<int>(random() % kKeys);
        const std::string name = absl::StrCat("key", key);
        Operation operation;
        operation.client = t + 1;
        operation.begin_ns = clock.NowNs();
        if (random() % 8 == 0) {
          const int64_t ttl_ms = 1 + static_cast<int64_t>(random() % 5);
          operation.type = Type::kPut;
          operation.write = static_cast<uint64_t>(t * kOperations + i + 1);
          const auto put = client->Put(name, absl::StrCat(operation.write), {.ttl_ms = ttl_ms});
          operation.end_ns = clock.NowNs();
          ASSERT_TRUE(put.ok()) << put.status();
          operation.outcome = Outcome::kOk;
          operation.version = *put;
          // An expiry time that the server rounded up to its next millisecond.
          Operation end;
          end.type = Type::kExpire;
          end.outcome = Outcome::kOk;
          end.found = operation.write;
          end.begin_ns = operation.begin_ns + ttl_ms * kMsNs - 1'000;
          end.end_ns = operation.end_ns + (ttl_ms + 1) * kMsNs + 1'000;
          own[key].push_back(end);
        } else {
          operation.type = Type::kGet;
          const auto got = client->Get(name);
          operation.end_ns = clock.NowNs();
          ASSERT_TRUE(got.ok() || absl::IsNotFound(got.status())) << got.status();
          operation.outcome = got.ok() ? Outcome::kOk : Outcome::kNotFound;
          if (got.ok()) {
            operation.found = std::stoull(got->data);
            operation.version = got->version;
          }
          if (i % 16 == 0) usleep(static_cast<useconds_t>(random() % 300));
        }
        own[key].push_back(operation);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      for (auto& [key, history] : own) histories[key].insert(histories[key].end(), history.begin(), history.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t missed = 0;
  for (const auto& [key, history] : histories) {
    const history::CheckResult result = history::Check(history);
    EXPECT_NE(result.verdict, history::Verdict::kViolation) << "key " << key << ": " << result.why;
    for (const Operation& operation : history) missed += operation.outcome == Outcome::kNotFound;
  }
  EXPECT_GT(missed, 10u);
}

INSTANTIATE_TEST_SUITE_P(Both, ExpiryTest, testing::Values(Lookups::kReads, Lookups::kMessages),
                         [](const auto& of) { return of.param == Lookups::kReads ? "Reads" : "Messages"; });

}  // namespace
}  // namespace farlook
