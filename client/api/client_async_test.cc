// Operations that end later, their order, callbacks; batches.

#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/api/client_testing.h"
#include "farlook/admin.h"
#include "farlook/async.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

TEST_F(ClientTest, AsynchronousOperationsEndThroughPollAndWakeItsDescriptor) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::vector<std::string> keys;
  for (int i = 0; i < 500; ++i) keys.push_back(absl::StrCat("key", i));
  std::deque<PutOperation> operations;
  for (int i = 0; i < 500; ++i) {
    operations.emplace_back(keys[i], Borrowed{keys[i]}, PutOptions{.timeout_ms = 10'000}).set_tag(&keys[i]);
    client->Start(&operations.back());
  }
  // A blocking call in between ends on its own, and takes no other operation's completion.
  EXPECT_TRUE(client->Ping().ok());
  size_t ended = 0;
  while (client->in_flight() > 0) {
    AsyncOperation* done[7];
    const size_t count = client->Poll(done);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(done[i]->status().ok()) << done[i]->status();
      EXPECT_EQ(*static_cast<std::string*>(done[i]->tag()), done[i]->key());
    }
    ended += count;
    if (count > 0 || !client->Arm()) continue;
    pollfd fd = {client->fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>(client->wait_ms()));
  }
  EXPECT_EQ(ended, 500);
  EXPECT_EQ(client->Get("key499")->data, "key499");
}

TEST_F(ClientTest, ConditionsOfDeletes) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  const auto first = client->Put("key", "one"), second = client->Put("key", "two");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfVersion(*first)}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfAbsent()}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client->Get("key")->data, "two");
  EXPECT_TRUE(client->Delete("key", {.condition = Condition::IfVersion(*second)}).ok());
  EXPECT_EQ(client->Delete("key", {.condition = Condition::IfVersion(*second)}).code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, BatchesOfWritesAnswerEachKey) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  constexpr size_t kCount = 700;  // several runs
  std::vector<std::string> names;
  for (size_t i = 0; i < kCount; ++i) names.push_back(absl::StrCat("key", i));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<Result<uint64_t>> results;
  ASSERT_TRUE(client->MultiPut(keys, keys, &results, {.condition = Condition::IfAbsent()}).ok());
  for (size_t i = 0; i < kCount; i += 99) {
    const auto got = client->Get(names[i]);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->data, names[i]);
    EXPECT_EQ(got->version, results[i].value);
  }
  // Expect: results distinguish present keys from absent ones, and the call returns the first error.
  ASSERT_TRUE(client->Delete(names[7]).ok());
  const std::vector<Result<uint64_t>> before = results;
  EXPECT_EQ(client->MultiPut(keys, keys, &results, {.condition = Condition::IfAbsent()}).code(),
            absl::StatusCode::kAlreadyExists);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(results[i].status.code(), i == 7 ? absl::StatusCode::kOk : absl::StatusCode::kAlreadyExists);
    if (i != 7) {
      EXPECT_EQ(results[i].value, before[i].value);
    }
  }
  // Expect: an absent key is no error of the call.
  ASSERT_TRUE(client->Delete(names[9]).ok());
  EXPECT_TRUE(client->MultiDelete(keys, &results).ok());
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(results[i].status.code(), i == 9 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
  }
  EXPECT_EQ(client->MultiPut(keys, {}, &results).code(), absl::StatusCode::kInvalidArgument);
  std::vector<Result<int64_t>> sums;
  EXPECT_EQ(client->MultiFetchAdd(keys, {}, &sums).code(), absl::StatusCode::kInvalidArgument);

  // Expect: counters are created side by side; for an existing one its value is returned.
  const std::vector<std::string_view> counters = {"c1", "c2", "c3"};
  const std::vector<int64_t> initials = {10, 20, 30};
  ASSERT_TRUE(client->CreateCounter("c2", 7).ok());
  EXPECT_EQ(client->MultiCreateCounter(counters, initials, &sums).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sums[1].status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(sums[1].value, 7);
  ASSERT_TRUE(client->MultiReadCounter(counters, &sums).ok());
  EXPECT_EQ(sums[0].value, 10);
  EXPECT_EQ(sums[1].value, 7);
  EXPECT_EQ(sums[2].value, 30);
  EXPECT_EQ(client->MultiCreateCounter(counters, {}, &sums).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, WritesToOneKeyTakeEffectInTheOrderTheyWereStarted) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::string last;
  for (int round = 0; round < 20; ++round) {
    std::deque<PutOperation> puts;
    std::deque<std::string> values;
    for (int i = 0; i < 8; ++i) {
      // Every second value is pulled.
      last = absl::StrCat(round, " ", i, " ", std::string(i % 2 == round % 2 ? 20'000 : 10, 'v'));
      client->Start(&puts.emplace_back("key", Borrowed{values.emplace_back(last)}));
    }
    AsyncOperation* done[8];
    while (client->in_flight() > 0) client->Wait(done);
    for (const PutOperation& put : puts) EXPECT_TRUE(put.status().ok()) << put.status();
    EXPECT_TRUE(client->Get("key")->data == last) << round;
  }
}

TEST_F(ClientTest, ACallbackOwnsItsOperationAndMayStartItAgainOrDestroyIt) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  int calls = 0;
  std::function<void(AsyncOperation*)> again = [&](AsyncOperation* ended) {
    EXPECT_EQ(static_cast<GetOperation*>(ended)->value(), "value");
    EXPECT_EQ(client->Get("key")->data, "value");  // blocking calls are allowed
    if (++calls < 5) {
      client->Start(ended, again);
    } else {
      delete ended;
    }
  };
  client->Start(new GetOperation("key"), again);
  // Beside it an operation that is polled: both end.
  PutOperation put("other", std::string("x"));
  client->Start(&put);
  AsyncOperation* done[1];
  size_t polled = 0;
  while (client->in_flight() > 0) polled += client->Wait(done);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(polled, 1);
  EXPECT_EQ(done[0], &put);
  EXPECT_TRUE(put.status().ok()) << put.status();
  EXPECT_EQ(client->Wait(done), 0);
}

TEST_F(ClientTest, WhatAnOperatorAsksTakesNobodysCompletion) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(client->Put("key", "value").ok());
  GetOperation get("key");
  client->Start(&get);
  const auto clients = ListClients(client.get());
  EXPECT_TRUE(clients.ok()) << clients.status();
  EXPECT_EQ(client->in_flight(), 1);
  EXPECT_TRUE(KickClient(client.get(), 7).ok());
  EXPECT_EQ(client->in_flight(), 1);
  AsyncOperation* done[2];
  ASSERT_EQ(client->Wait(done), 1);
  EXPECT_EQ(done[0], &get);
  EXPECT_EQ(get.value(), "value");
}

TEST_F(ClientTest, APollWithoutRoomRunsCallbacksAndKeepsTheOthers) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  std::deque<GetOperation> gets;
  int calls = 0;
  for (int i = 0; i < 200; ++i) {
    gets.emplace_back(absl::StrCat(i));
    if (i % 2 == 0) {
      client->Start(&gets.back(), [&](AsyncOperation*) { ++calls; });
    } else {
      client->Start(&gets.back());
    }
  }
  for (int i = 0; i < 100'000'000 && calls < 100; ++i) client->Poll({});
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(client->in_flight(), 100);
  EXPECT_FALSE(client->Arm());
  AsyncOperation* done[200];
  size_t count = 0;
  while (count < 100) count += client->Poll(std::span(done).subspan(count));
  EXPECT_EQ(client->in_flight(), 0);
  std::set<AsyncOperation*> polled(done, done + 100);  // operations in flight together end in any order
  for (int i = 1; i < 200; i += 2) {
    EXPECT_EQ(polled.count(&gets[i]), 1);
    EXPECT_EQ(gets[i].status().code(), absl::StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace farlook
