// Misuse of the public client that ends the process with a message.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/api/client_testing.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

#ifdef ABSL_HAVE_THREAD_SANITIZER
// The sanitizer may find the race first, and ends the process too.
constexpr char kTwoThreads[] = "two threads use one client|ThreadSanitizer: data race";
#else
constexpr char kTwoThreads[] = "two threads use one client";
#endif

class MisuseDeathTest : public ClientTest {
 protected:
  // The process that is to die makes its own connection.
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
};

TEST_F(MisuseDeathTest, AnOperationInFlightIsNeitherStartedChangedNorDestroyed) {
  ThreadedServer server(address_, 1);
  auto client = Connect(), other = Connect();
  ASSERT_TRUE(client != nullptr && other != nullptr);
  server.SetSilent(true);
  auto put = std::make_unique<PutOperation>("key", std::string("value"));
  client->Start(put.get());
  AsyncOperation* const both[] = {put.get()};
  EXPECT_DEATH(client->Start(put.get()), "Start.. of an operation that is in flight");
  EXPECT_DEATH(client->Start(both), "in flight");
  EXPECT_DEATH(other->Start(put.get()), "in flight");
  EXPECT_DEATH(put->set_key("other"), "changed or destroyed while it was in flight");
  EXPECT_DEATH(put->set_value(std::string("other")), "in flight");
  EXPECT_DEATH(put.reset(), "changed or destroyed while it was in flight");
  server.SetSilent(false);
  std::array<AsyncOperation*, 1> done;
  ASSERT_EQ(client->Wait(done), 1);
  EXPECT_TRUE(put->status().ok()) << put->status();
}

TEST_F(MisuseDeathTest, OneThatHasEndedIsInFlightUntilItIsReturned) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  GetOperation get("key");
  client->Start(&get);
  while (client->Poll({}) == 0 && !absl::IsNotFound(get.status())) {
  }
  EXPECT_DEATH(client->Start(&get), "in flight");
  std::array<AsyncOperation*, 1> done;
  ASSERT_EQ(client->Wait(done), 1);
  client->Start(&get);
  ASSERT_EQ(client->Wait(done), 1);
}

TEST_F(MisuseDeathTest, WhatWasInFlightWithAClientThatIsGoneIsFree) {
  ThreadedServer server(address_, 1);
  auto gone = Connect(), client = Connect();
  ASSERT_TRUE(gone != nullptr && client != nullptr);
  server.SetSilent(true);
  auto put = std::make_unique<PutOperation>("key", std::string("value"));
  auto never = std::make_unique<PutOperation>("key", std::string("value"));
  gone->Start(put.get());
  gone->Start(never.get());
  gone.reset();
  server.SetSilent(false);
  never.reset();
  put->set_key("other");
  // A callback may start its operation again.
  int calls = 0;
  client->Start(put.get(), [&](AsyncOperation* ended) {
    ++calls;
    client->Start(ended);
  });
  std::array<AsyncOperation*, 1> done;
  while (client->Wait(done) == 0) {
  }
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(put->status().ok()) << put->status();
}

TEST_F(MisuseDeathTest, ThreadsMayTakeTurnsWhileCallsWait) {
  ThreadedServer server(address_, 1);
  std::mutex turn;
  ClientOptions options = Patient();
  options.while_waiting = [&turn] {
    turn.unlock();
    std::this_thread::yield();
    turn.lock();
    return 1;
  };
  std::unique_ptr<Client> client;
  {
    const std::lock_guard lock(turn);
    client = Connect(options);
  }
  ASSERT_NE(client, nullptr);
  server.SetSilent(true);
  std::atomic<int> done = 0;
  const auto put = [&](const char* key) {
    const std::lock_guard lock(turn);
    done += client->Put(key, "value").ok() ? 1 : 0;
  };
  std::thread one(put, "one"), two(put, "two");
  absl::SleepFor(absl::Milliseconds(200));  // both wait by now
  server.SetSilent(false);
  one.join();
  two.join();
  EXPECT_EQ(done, 2);
}

TEST_F(MisuseDeathTest, TwoThreadsAreFound) {
  ThreadedServer server(address_, 1);
  auto client = Connect();
  ASSERT_NE(client, nullptr);
  server.SetSilent(true);
  const auto put = [&] { client->Put("key", "value").status().IgnoreError(); };
  EXPECT_DEATH(
      {
        std::thread other(put);
        put();
        other.join();
      },
      kTwoThreads);
#ifndef NDEBUG
  // Also if no call waits for long.
  EXPECT_DEATH(
      {
        std::thread other(put);
        for (;;) client->Exists("key").status().IgnoreError();
      },
      kTwoThreads);
#endif
}

}  // namespace
}  // namespace farlook
