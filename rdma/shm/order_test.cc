// Litmus tests of what ring, gate and word copies promise to order. Each hands on plain memory, so that the thread
// sanitizer sees an order that is missing where the processor happens to keep it. See docs/memory-order.md.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/shm/atomic_gate.h"
#include "rdma/shm/ring.h"
#include "rdma/shm/word_copy.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kRounds = 1'000;

// The tag hands the payload on; the head hands the cells back.
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

// Where the server found the gate closed and nobody inside, no client touches what is behind it any more, and all that
// one did there before is seen.
TEST(OrderTest, Gate) {
  std::unique_ptr<AtomicGate[]> gates(new AtomicGate[kRounds]());
  std::vector<uint64_t> behind(kRounds);
  std::atomic<size_t> round[2] = {0, 0};  // to meet in each round; orders nothing that is behind the gates
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
