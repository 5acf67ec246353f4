// Tests that need real time: sleeping on descriptors, and several threads.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "rdma/conformance/fixture.h"
#include "rdma/host/word_copy.h"

namespace farlook::rdma::conformance {
namespace {

// Polls, and sleeps while there is nothing, until an event arrives; removes it from the queue. Returns false after
// kBoundMs.
bool SleepForEvent(Queue* queue, Event* event) {
  while (queue->events().empty()) {
    if (queue->Pump() > 0 || !(*queue)->Arm()) continue;
    pollfd waiting = {(*queue)->fd(), POLLIN, 0};
    if (poll(&waiting, 1, kBoundMs) != 1) return false;
  }
  *event = queue->events().front();
  queue->events().pop_front();
  return true;
}

TEST_P(RealTimeConformanceTest, ASleeperIsWokenByTheTimeout) {
  StartServer();
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "", 50);
  ASSERT_TRUE(connection.ok()) << connection.status();
  while (client->events().empty()) {
    if (client->Pump() == 0 && (*client)->Arm()) {
      pollfd waiting = {(*client)->fd(), POLLIN, 0};
      ASSERT_EQ(poll(&waiting, 1, kBoundMs), 1);
    }
  }
  EXPECT_EQ(client->events().front().opcode, Opcode::kDisconnected);
}

TEST_P(RealTimeConformanceTest, ArmSaysWhenThereIsSomethingAlready) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->PostSend("x", ""));
  pair.client->Ring();
  // Expect: either the message is there, or the descriptor becomes readable.
  if ((*server_)->Arm()) {
    pollfd waiting = {(*server_)->fd(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, kBoundMs), 1);
  }
  EXPECT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, "x");
}

TEST_P(RealTimeConformanceTest, WakeEndsOneSleepThisOneOrTheNext) {
  StartServer();
  const auto sleep = [&](int ms) {
    while (!(*server_)->Arm()) server_->Pump();
    pollfd waiting = {(*server_)->fd(), POLLIN, 0};
    return poll(&waiting, 1, ms);
  };
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    (*server_)->Wake();
  });
  EXPECT_EQ(sleep(kBoundMs), 1);
  other.join();
  // Expect: no more than that one. Occasionally a sleep ends spuriously.
  bool undisturbed = false;
  for (int sleeps = 0; sleeps < 20 && !undisturbed; ++sleeps) {
    server_->Pump();
    undisturbed = sleep(50) == 0;
  }
  EXPECT_TRUE(undisturbed);
  (*server_)->Wake();
  EXPECT_EQ(sleep(kBoundMs), 1);
}

// A lost wake-up leaves a side asleep until the bound.
TEST_P(RealTimeConformanceTest, BothSidesSleepAndWake) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr int kRounds = 3000;
  std::thread server([&] {
    for (int i = 0; i < kRounds; ++i) {
      Event event;
      ASSERT_TRUE(SleepForEvent(server_.get(), &event)) << "server slept through message " << i;
      ASSERT_EQ(event.message, absl::StrCat(i));
      ASSERT_TRUE(pair.server->PostSend(event.message, ""));
      pair.server->Ring();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(pair.client->PostSend(absl::StrCat(i), ""));
    pair.client->Ring();
    Event event;
    if (!SleepForEvent(client.get(), &event)) {
      ADD_FAILURE() << "client slept through answer " << i;
      break;
    }
    EXPECT_EQ(event.message, absl::StrCat(i));
  }
  server.join();
}

TEST_P(RealTimeConformanceTest, ASenderSleepsUntilThereIsRoom) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr uint64_t kMessages = 3000;
  std::thread sender([&] {
    for (uint64_t i = 0; i < kMessages;) {
      if (pair.client->PostSend(absl::StrCat(i, " "), std::string(1000, 'x'))) {
        pair.client->Ring();
        ++i;
        continue;
      }
      if (client->Pump() > 0 || !(*client)->Arm()) continue;
      pollfd waiting = {(*client)->fd(), POLLIN, 0};
      ASSERT_EQ(poll(&waiting, 1, kBoundMs), 1) << "nobody said that there is room";
    }
  });
  uint64_t received = 0;
  while (received < kMessages) {
    Event event;
    if (!SleepForEvent(server_.get(), &event)) {
      ADD_FAILURE() << "slept through message " << received;
      break;
    }
    EXPECT_EQ(event.message.substr(0, event.message.find(' ')), absl::StrCat(received));
    ++received;
  }
  sender.join();
}

// One side of a conversation. Like a caller that waits for several answers, it polls once after each wake-up, sends
// until the room is used up, and sleeps again.
struct Sleeper {
  Queue* queue;
  Connection* connection;
  uint64_t to_send = 0;
  uint64_t received = 0;
  bool awake = true;

  void TakeTurn(const std::string& message) {
    queue->Pump();
    received += queue->events().size();
    queue->events().clear();
    for (; to_send > 0 && connection->PostSend(message, ""); --to_send) {
    }
    connection->Ring();
    awake = !(*queue)->Arm();
  }
};

// Requests fill the server's window, answers the client's. A lost wake-up leaves both sides asleep until the bound:
// ticks come later.
TEST_P(RealTimeConformanceTest, SidesThatLookOnceBeforeTheySleepHoldNobodyUp) {
  options_.liveness_ms = 100 * kBoundMs;
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr uint64_t kMessages = 5000;
  for (const size_t bytes : {size_t{64}, size_t{1000}, size_t{3000}}) {
    Sleeper asking = {client.get(), pair.client.get(), kMessages};
    Sleeper answering = {server_.get(), pair.server.get()};
    const std::string message(bytes, 'm');
    while (asking.received < kMessages) {
      if (asking.awake) asking.TakeTurn(message);
      const uint64_t before = answering.received;
      if (answering.awake) answering.TakeTurn(message);
      answering.to_send += answering.received - before;
      if (answering.received > before) answering.awake = true;
      if (asking.awake || answering.awake || asking.received == kMessages) continue;
      pollfd waiting[] = {{(*client)->fd(), POLLIN, 0}, {(*server_)->fd(), POLLIN, 0}};
      ASSERT_GT(poll(waiting, 2, kBoundMs), 0)
          << "both sleep: " << asking.received << " of " << kMessages << " answers of " << bytes << " bytes came, "
          << answering.to_send << " wait for room";
      asking.awake = waiting[0].revents != 0;
      answering.awake = waiting[1].revents != 0;
    }
  }
}

TEST_P(RealTimeConformanceTest, ASleeperIsWokenByTheEnd) {
  StartServer();
  auto client = NewClient();
  for (const bool by_client : {true, false}) {
    Pair pair = Connect(client.get());
    Queue* const sleeper = by_client ? server_.get() : client.get();
    ASSERT_TRUE(PumpUntil(client.get(), [&] { return (*sleeper)->Arm(); }));
    (by_client ? pair.client : pair.server)->Disconnect();
    pollfd waiting = {(*sleeper)->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, kBoundMs), 1);
    Await(client.get(), Opcode::kDisconnected);
    Await(server_.get(), Opcode::kDisconnected, client.get());
  }
}

// Words contain their own check, so that a torn one is detected.
TEST_P(RealTimeConformanceTest, AlignedWordsAreNeverTorn) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr size_t kWords = 16;
  auto* const words = static_cast<uint64_t*>(static_cast<void*>(table_memory_->data()));
  const auto checked = [](uint32_t value) {
    return uint64_t{value} << 32 | static_cast<uint32_t>(~value * 0x9e3779b1u);
  };
  for (size_t i = 0; i < kWords; ++i) words[i] = checked(0);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint32_t value = 1; !done.load(std::memory_order_relaxed); ++value) {
      for (size_t i = 0; i < kWords; ++i) {
        std::atomic_ref<uint64_t>(words[i]).store(checked(value), std::memory_order_release);
      }
    }
  });
  auto buffer = NewBuffer(client.get(), 4096);
  uint64_t last_first = 0;
  const int rounds = pair.client->capabilities().local ? 100'000 : 20'000;  // emulated verbs are slow
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    EXPECT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), kWords * 8, table_.address, table_.rkey),
              WcStatus::kSuccess);
    uint64_t seen[kWords];
    memcpy(seen, buffer->bytes().data(), sizeof(seen));
    for (const uint64_t word : seen) EXPECT_EQ(word, checked(static_cast<uint32_t>(word >> 32)));
    if (const char* const mapped = pair.client->Mapped(table_.address, sizeof(seen), table_.rkey); mapped != nullptr) {
      const uint64_t posted_first = seen[0] >> 32;
      for (size_t i = 0; i < kWords; ++i) seen[i] = LoadWord(mapped + 8 * i);
      for (const uint64_t word : seen) EXPECT_EQ(word, checked(static_cast<uint32_t>(word >> 32)));
      EXPECT_GE(seen[0] >> 32, posted_first);
    }
    // Expect: READs posted one after the other never go back.
    EXPECT_GE(seen[0] >> 32, last_first);
    last_first = seen[0] >> 32;
  }
  done.store(true, std::memory_order_relaxed);
  writer.join();
}

// The agent that executes the clients' atomics also executes the server's own.
TEST_P(RealTimeConformanceTest, NoAtomicIsLostBetweenTwoClientsAndTheServer) {
  StartServer();
  auto first = NewClient();
  auto second = NewClient();
  Pair first_pair = Connect(first.get());
  Pair second_pair = Connect(second.get());
  ASSERT_TRUE(first_pair.client->capabilities().atomics);
  std::unique_ptr<Loopback> loopback;
  if (listener_->atomic_domain() == AtomicDomain::kDevice) {
    auto made = listener_->ConnectToItself(counters_);
    ASSERT_TRUE(made.ok()) << made.status();
    loopback = *std::move(made);
  }
  auto* const word = static_cast<uint64_t*>(static_cast<void*>(counter_memory_->data()));
  const std::atomic_ref<uint64_t> cell(*word);
  constexpr uint64_t kAdds = 20'000;
  const auto add = [&](Queue* queue, Connection* connection) {
    auto buffer = NewBuffer(queue, 4096);
    auto* const old_value = static_cast<uint64_t*>(static_cast<void*>(buffer->bytes().data()));
    for (uint64_t i = 0; i < kAdds; ++i) {
      ASSERT_TRUE(connection->PostFetchAdd(i, old_value, counters_.address, counters_.rkey, 1));
      connection->Ring();
      while (queue->events().empty()) queue->Pump();
      ASSERT_EQ(queue->events().front().status, WcStatus::kSuccess);
      queue->events().clear();
    }
  };
  std::thread other(add, second.get(), second_pair.client.get());
  // In a field of its own, as fast as possible: more adds make a loss more likely.
  constexpr uint64_t kOwn = 1 << 20;
  uint64_t own = 0;
  std::atomic<bool> done{false};
  std::thread server([&] {
    for (; !done.load(std::memory_order_relaxed); ++own) {
      uint64_t ignored;
      if (loopback == nullptr) {
        cell.fetch_add(kOwn);
      } else if (const absl::Status status = loopback->FetchAdd(counters_.address, kOwn, &ignored); !status.ok()) {
        ADD_FAILURE() << status;
        return;
      }
    }
  });
  add(first.get(), first_pair.client.get());
  other.join();
  done.store(true, std::memory_order_relaxed);
  server.join();
  EXPECT_EQ(cell.load() % kOwn, 2 * kAdds);
  EXPECT_EQ(cell.load() / kOwn, own % (uint64_t{1} << 44));
}

}  // namespace
}  // namespace farlook::rdma::conformance
