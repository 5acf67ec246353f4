// The blocking client.

#include "farlook/client.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/api/client_testing.h"
#include "farlook/admin.h"
#include "gtest/gtest.h"
#include "kv/wire/message.h"
#include "rdma/clock.h"

namespace farlook {
namespace {

TEST_F(ClientTest, ConnectSaysWhatIsWrong) {
  EXPECT_EQ(Client::Connect("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  auto absent = Client::Connect(address_);
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(absent.status().message().find(address_), absl::string_view::npos);
}

TEST_F(ClientTest, OptionsHaveLimits) {
  ThreadedServer server(address_, 1);
  const auto refused = [this](const char* name, ClientOptions options) {
    const absl::Status status = Client::Connect(address_, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), absl::string_view::npos) << status;
  };
  refused("liveness_ms", {.liveness_ms = INT64_MAX});
  refused("liveness_ms", {.liveness_ms = 0});
  refused("spin_us", {.spin_us = INT64_MAX});
  refused("spin_us", {.spin_us = -1});
  refused("min_backoff_ms", {.min_backoff_ms = INT64_MAX});
  refused("max_backoff_ms", {.max_backoff_ms = INT64_MAX});
  // A timeout has no limit.
  auto client = Connect({.timeout_ms = INT64_MAX});
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", "value", {.timeout_ms = INT64_MAX}).ok());
  EXPECT_TRUE(client->Get("key", {.timeout_ms = INT64_MAX}).ok());
  EXPECT_TRUE(client->Ping().ok());
}

TEST_F(ClientTest, CallsDoWhatTheySay) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->Get("key").status().code(), absl::StatusCode::kNotFound);
  const auto inserted = client->Put("key", "one", {.condition = Condition::IfAbsent()});
  ASSERT_TRUE(inserted.ok());
  EXPECT_EQ(client->Put("key", "x", {.condition = Condition::IfAbsent()}).status().code(),
            absl::StatusCode::kAlreadyExists);
  auto got = client->Get("key");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->data, "one");
  EXPECT_EQ(got->version, *inserted);
  EXPECT_TRUE(*client->Exists("key"));
  EXPECT_FALSE(*client->Exists("other"));
  const auto set = client->Put("key", "two", {.condition = Condition::IfVersion(got->version)});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(client->Put("key", "three", {.condition = Condition::IfVersion(got->version)}).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(client->Put("other", "x", {.condition = Condition::IfPresent()}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(client->Put("key", "four", {.condition = Condition::IfPresent()}).ok());
  char buffer[10];
  uint64_t version = 0;
  EXPECT_EQ(*client->GetInto("key", buffer, {}, &version), 4);
  EXPECT_EQ(absl::string_view(buffer, 4), "four");
  EXPECT_NE(version, 0);
  EXPECT_EQ(client->GetInto("key", std::span(buffer).first(3)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(client->Delete("key").ok());
  EXPECT_EQ(client->Delete("key").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(client->Ping().ok());
  EXPECT_EQ(client->ServerStats()->substr(0, 8), "executed");
  EXPECT_EQ(client->incarnation(), 1);
  EXPECT_LE(client->memory_bytes(), MostMemory());
}

TEST_F(ClientTest, MultiGetAnswersEachKey) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back(absl::StrCat("key", i));
    if (i % 3 != 0) {
      ASSERT_TRUE(client->Put(names.back(), absl::StrCat("value", i)).ok());
    }
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Result<Value>> results;
  ClientOptions by_message = Patient();
  by_message.lookups = Lookups::kMessages;
  auto asking = Connect(by_message);
  ASSERT_NE(asking, nullptr);
  for (Client* reader : {client.get(), client.get(), asking.get()}) {
    ASSERT_TRUE(reader->MultiGet(keys, &results).ok());
    ASSERT_EQ(results.size(), keys.size());
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(results[i].status.code(), i % 3 == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
      EXPECT_EQ(results[i].value.data, i % 3 == 0 ? "" : absl::StrCat("value", i));
    }
  }
  EXPECT_EQ(asking->stats().server_gets, 1000);
  EXPECT_EQ(asking->stats().bucket_reads, 0);
  EXPECT_TRUE(client->MultiGet({}, &results).ok());
  const std::string_view bad[] = {"key1", "", "key2"};
  EXPECT_EQ(client->MultiGet(bad, &results).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[2].value.data, "value2");
}

TEST_F(ClientTest, LargeValuesGoThereAndBack) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  for (size_t bytes : {4000, 5000, 100'000, 3 << 20}) {
    std::string value(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 7 + i / 255);
    const auto put = client->Put("key", value);
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_TRUE(client->Get("key")->data == value);
    std::string buffer(bytes, 'x');
    EXPECT_EQ(*client->GetInto("key", buffer), bytes);
    EXPECT_TRUE(buffer == value);
  }
  EXPECT_LE(client->memory_bytes(), MostMemory());
}

TEST_F(ClientTest, SleepsUntilTheAnswerComes) {
  ThreadedServer server(address_, 1);
  ClientOptions options = Patient();
  options.spin_us = 0;
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(client->Put("key", absl::StrCat(i)).ok());
  EXPECT_EQ(client->Get("key")->data, "199");
}

TEST_F(ClientTest, AServerThatDoesNotAnswerCostsTheDeadlineAndReadsGoOn) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  server.SetSilent(true);
  EXPECT_EQ(client->Put("key", "x", {.timeout_ms = 20}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Ping({.timeout_ms = 20}).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Get("key")->data, "value");
  // Expect: it is executed later, once.
  server.SetSilent(false);
  EXPECT_TRUE(client->Ping({.timeout_ms = 10'000}).ok());
  EXPECT_EQ(client->Get("key")->data, "x");
}

TEST_F(ClientTest, ABrokenConnectionIsNotNoticedByItsUser) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 300; ++i) {
    if (i % 10 == 0) server.BreakConnections();
    // Insert of a new key: a second execution would return an error.
    const auto inserted = client->Put(absl::StrCat("key", i), i % 7 == 0 ? std::string(9000, 'v') : "v",
                                      {.condition = Condition::IfAbsent()});
    ASSERT_TRUE(inserted.ok()) << i << ": " << inserted.status();
    ASSERT_TRUE(client->Get(absl::StrCat("key", i)).ok());
  }
  EXPECT_GE(client->stats().reconnects, 1);
}

TEST_F(ClientTest, AServerThatGoesAndComesBackIsAnotherIncarnation) {
  auto server = std::make_unique<ThreadedServer>(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  server.reset();
  EXPECT_EQ(client->Get("key").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->Put("key", "value").status().code(), absl::StatusCode::kUnavailable);
  server = std::make_unique<ThreadedServer>(address_, 2);
  // It is found within a backoff of its return.
  absl::StatusOr<Value> got = client->Get("key");
  for (int i = 0; i < 1000 && absl::IsUnavailable(got.status()); ++i) {
    poll(nullptr, 0, 1);
    got = client->Get("key");
  }
  EXPECT_EQ(got.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(got.status().message().find("incarnation"), absl::string_view::npos) << got.status();
  EXPECT_EQ(client->incarnation(), 2);
  EXPECT_EQ(client->stats().incarnation_changes, 1);
}

TEST_F(ClientTest, ReadersSeeWholeValuesWhileTheServerWrites) {
  // Values that name their key and can be verified: "<key> <letter repeated>".
  const auto value_of = [](int key, uint64_t round) {
    return absl::StrCat("key", key, " ", std::string(round * 37 % 1500, static_cast<char>('a' + round % 26)));
  };
  ThreadedServer server(address_, 1);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  for (int key = 0; key < 50; ++key) ASSERT_TRUE(clients[0]->Put(absl::StrCat("key", key), value_of(key, 0)).ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 1; i < 3; ++i) {
    readers.emplace_back([&, i] {
      Value found;
      const std::string& value = found.data;
      for (uint64_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
        const std::string key = absl::StrCat("key", n % 50);
        const absl::Status status = clients[i]->Get(key, &found, {.timeout_ms = 10'000});
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(value.substr(0, key.size() + 1), key + " ");
        ASSERT_TRUE(std::all_of(value.begin() + static_cast<std::ptrdiff_t>(key.size()) + 1, value.end(),
                                [&](char c) { return c == value.back(); }));
      }
    });
  }
  for (uint64_t round = 1; round < 100; ++round) {
    for (int key = 0; key < 50; ++key) {
      ASSERT_TRUE(clients[0]->Put(absl::StrCat("key", key), value_of(key, round), {.timeout_ms = 10'000}).ok());
    }
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& reader : readers) reader.join();
}

TEST_F(ClientTest, OperationsWaitForAServerThatComesBackWhereTheOptionSaysSo) {
  auto server = std::make_unique<ThreadedServer>(address_, 1);
  ClientOptions options = Patient();
  options.wait_for_server = true;
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  server.reset();
  EXPECT_EQ(client->Get("key", {.timeout_ms = 30}).status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread starting([&] {
    poll(nullptr, 0, 30);
    server = std::make_unique<ThreadedServer>(address_, 2);
  });
  const auto put = client->Put("key", "value", {.timeout_ms = 60'000});
  starting.join();
  EXPECT_TRUE(put.ok()) << put.status();
}

TEST_F(ClientTest, WaitsForAServerThatIsNotThereYet) {
  ClientOptions options = Patient();
  options.timeout_ms = 50;
  EXPECT_EQ(Client::Connect(address_, options).status().code(), absl::StatusCode::kUnavailable);
  options.wait_for_server = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Client::Connect(address_, options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  options.timeout_ms = 60'000;
  std::unique_ptr<ThreadedServer> server;
  std::thread starting([&] {
    poll(nullptr, 0, 30);
    server = std::make_unique<ThreadedServer>(address_, 1);
  });
  auto client = Client::Connect(address_, options);
  starting.join();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Put("key", "value").ok());
}

// A group takes seconds for it, and its operator may end the call: Ctrl-C in Python.
TEST_F(ClientTest, OperatorsCallsThatLookAgainAskWhileTheyWait) {
  ThreadedServer server(address_, 1);
  bool ends = false;
  ClientOptions options = Patient();
  options.while_waiting = [&ends]() -> int64_t { return ends ? -1 : 1; };
  auto client = Connect(options);
  ASSERT_NE(client, nullptr);
  ends = true;
  // Expect: it ends long before the timeout.
  const absl::Status handover = HandOver(client.get());
  EXPECT_TRUE(absl::IsDeadlineExceeded(handover)) << handover;
  const int64_t begin_ns = rdma::Clock::Real().NowNs();
  const absl::Status resize = ResizeGroup(client.get(), 3, 2, {.timeout_ms = 600'000});
  EXPECT_TRUE(absl::IsDeadlineExceeded(resize)) << resize;
  EXPECT_LT(rdma::Clock::Real().NowNs() - begin_ns, 300'000'000'000);
}

}  // namespace
}  // namespace farlook
