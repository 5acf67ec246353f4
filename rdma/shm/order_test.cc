// Litmus tests of the order that ring, gate and word copies promise. Each publishes plain memory, so that the thread
// sanitizer detects a missing order even where the processor happens to keep it. See docs/memory-order.md.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/host/word_copy.h"
#include "rdma/shm/atomic_gate.h"
#include "rdma/shm/ring.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kRounds = 1'000;

// The tag publishes the payload; the head returns the cells.
TEST(OrderTest, Ring) {
  constexpr size_t kCells = 16;
  std::unique_ptr<Cell[]> cells(new Cell[kCells]());
  ConsumerLine consumer_line{};
  ProducerLine producer_line{};
  std::vector<uint64_t> sent(kRounds), read(kRounds);
  std::thread producing([&] {
    RingProducer producer(cells.get(), kCells, &consumer_line, &producer_line);
    for (uint64_t i = 0; i < kRounds; ++i) {
      sent[i] = i;
      char message[8];
      memcpy(message, &i, sizeof message);
      while (!producer.Send({message, sizeof message}, {})) std::this_thread::yield();
      if (i >= kCells) {  // there was room, so that one was read
        EXPECT_EQ(read[i - kCells], i - kCells);
      }
    }
  });
  RingConsumer consumer(cells.get(), kCells, &consumer_line, &producer_line);
  alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes)];
  for (uint64_t i = 0; i < kRounds; ++i) {
    size_t bytes = 0;
    while (consumer.Receive(message, &bytes) == Received::kNothing) std::this_thread::yield();
    EXPECT_EQ(sent[i], i);
    read[i] = i;
    consumer.PublishHead();
  }
  producing.join();
}

// Runs two threads that act at nearly the same time, in rounds. Bounded in time, since on one processor a round takes
// scheduler turns. Does not order their actions.
class Rounds {
 public:
  // Called by each thread: returns false after enough rounds.
  bool Begin(size_t self) {
    if (self == 0 && (++begun_ > kMost || std::chrono::steady_clock::now() > end_)) {
      over_.store(true, std::memory_order_relaxed);
    }
    Meet(self);
    return !over_.load(std::memory_order_relaxed);
  }
  // Waits until both have done their part.
  void Meet(size_t self) {
    const uint64_t round = at_[self].value.load(std::memory_order_relaxed) + 1;
    at_[self].value.store(round, std::memory_order_release);
    for (int turn = 0; at_[1 - self].value.load(std::memory_order_acquire) < round; ++turn) {
      if (turn > 1'000) std::this_thread::yield();
    }
    // The last one to arrive leaves first; vary how much later the other one leaves.
    for (uint64_t turn = 0; turn < round % 64 && self == (round / 64) % 2; ++turn) {
      (void)at_[self].value.load(std::memory_order_relaxed);
    }
  }

 private:
  static constexpr uint64_t kMost = 1'000'000;
  struct alignas(2 * kCacheLineBytes) Line {
    std::atomic<uint64_t> value{0};
  };
  Line at_[2];
  std::atomic<bool> over_{false};
  uint64_t begun_ = 0;
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
};

// If a message is sent while the consumer falls asleep, one side sees the other; otherwise the message would not be
// noticed. Needs the fences on both sides. The sanitizer does not model them; without them the processor does produce
// the forbidden result.
TEST(OrderTest, AMessageOrTheSleeperIsSeen) {
  constexpr size_t kCells = 16;
  std::unique_ptr<Cell[]> cells(new Cell[kCells]());
  ConsumerLine consumer_line{};
  ProducerLine producer_line{};
  Rounds rounds;
  bool wakes = false;
  std::thread producing([&] {
    RingProducer producer(cells.get(), kCells, &consumer_line, &producer_line);
    while (rounds.Begin(1)) {
      EXPECT_TRUE(producer.Send("message", {}));
      wakes = producer.TakeSleeper();
      rounds.Meet(1);
    }
  });
  RingConsumer consumer(cells.get(), kCells, &consumer_line, &producer_line);
  alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes)];
  size_t lost = 0, slept = 0;
  while (rounds.Begin(0)) {
    consumer.SetSleeping(true);
    RingConsumer::FenceSleep();
    const bool sleeps = !consumer.Ready();
    rounds.Meet(0);
    slept += sleeps;
    lost += sleeps && !wakes;
    consumer.SetSleeping(false);
    size_t bytes = 0;
    EXPECT_EQ(consumer.Receive(message, &bytes), Received::kMessage);
    consumer.PublishHead();
  }
  producing.join();
  EXPECT_EQ(lost, 0u) << "of " << slept << " sleeps";
}

// The same for a producer that waits for room and a consumer that makes some.
TEST(OrderTest, RoomOrWhoWaitsForItIsSeen) {
  constexpr size_t kCells = 128;  // room for one of the longest messages
  static_assert(kCells >= kMaxMessageCells && kCells < 2 * kMaxMessageCells);
  std::unique_ptr<Cell[]> cells(new Cell[kCells]());
  ConsumerLine consumer_line{};
  ProducerLine producer_line{};
  Rounds rounds;
  bool wakes = false;
  std::thread consuming([&] {
    RingConsumer consumer(cells.get(), kCells, &consumer_line, &producer_line);
    alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes)];
    size_t bytes = 0;
    while (rounds.Begin(1)) {
      rounds.Meet(1);
      EXPECT_EQ(consumer.Receive(message, &bytes), Received::kMessage);
      rounds.Meet(1);
      wakes = consumer.PublishHead();
      rounds.Meet(1);
    }
  });
  RingProducer producer(cells.get(), kCells, &consumer_line, &producer_line);
  const std::string message(kMaxMessageBytes, 'm');
  size_t lost = 0, slept = 0;
  while (rounds.Begin(0)) {
    EXPECT_TRUE(producer.Send(message, {}));
    EXPECT_FALSE(producer.Send(message, {}));
    rounds.Meet(0);
    rounds.Meet(0);
    const bool sleeps = producer.AwaitRoom();
    rounds.Meet(0);
    slept += sleeps;
    lost += sleeps && !wakes;
    producer_line.wants_room.store(0, std::memory_order_relaxed);
  }
  consuming.join();
  EXPECT_EQ(lost, 0u) << "of " << slept << " sleeps";
}

// After the server closed the gate and found it empty, no client touches the memory behind it, and all earlier accesses
// of a client are visible.
TEST(OrderTest, Gate) {
  std::unique_ptr<AtomicGate[]> gates(new AtomicGate[kRounds]());
  std::vector<uint64_t> behind(kRounds);
  std::atomic<size_t> round[2] = {0, 0};  // synchronizes the rounds only; does not order accesses behind the gates
  const auto meet = [&round](size_t self, size_t i) {
    round[self].store(i + 1, std::memory_order_relaxed);
    while (round[1 - self].load(std::memory_order_relaxed) < i + 1) std::this_thread::yield();
  };
  std::thread client([&] {
    for (size_t i = 0; i < kRounds; ++i) {
      meet(0, i);
      if (!gates[i].Enter()) continue;
      ++behind[i];
      gates[i].Leave();
    }
  });
  uint64_t closed_before = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    meet(1, i);
    for (size_t turn = 0; turn < i % 8; ++turn) (void)gates[i].closed();
    gates[i].Close();
    while (gates[i].occupied()) std::this_thread::yield();
    closed_before += behind[i] == 0;
    behind[i] += 2;
  }
  client.join();
  uint64_t seen_before = 0;
  for (const uint64_t value : behind) {
    EXPECT_TRUE(value == 2 || value == 3);
    seen_before += value == 2;
  }
  EXPECT_EQ(closed_before, seen_before) << "a client changed something after the gate was found empty";
}

// A READ is an acquire for what follows it.
TEST(OrderTest, WordCopy) {
  std::vector<uint64_t> words(kRounds), plain(kRounds);
  std::thread writer([&] {
    for (size_t i = 0; i < kRounds; ++i) {
      plain[i] = i;
      std::atomic_ref<uint64_t>(words[i]).store(1, std::memory_order_release);
    }
  });
  for (size_t i = 0; i < kRounds; ++i) {
    alignas(8) char copy[8];
    const Sge to = {copy, sizeof copy};
    uint64_t word = 0;
    while (word == 0) {
      ExecuteRead(&to, 1, static_cast<const char*>(static_cast<const void*>(&words[i])));
      memcpy(&word, copy, sizeof word);
      if (word == 0) std::this_thread::yield();
    }
    EXPECT_EQ(plain[i], i);
  }
  writer.join();
}

}  // namespace
}  // namespace farlook::rdma::shm
