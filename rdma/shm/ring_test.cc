#include "rdma/shm/ring.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kCells = 256;  // the smallest that holds a quarter and a message

// Both ends of one ring, in memory of their own.
struct RingPair {
  RingPair() : cells(new Cell[kCells]()), producer(cells.get(), kCells, &consumer_line, &producer_line) {
    consumer = RingConsumer(cells.get(), kCells, &consumer_line, &producer_line);
  }

  // Returns an empty string if there is none.
  std::string Receive() {
    alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes)];
    size_t bytes = 0;
    EXPECT_NE(last = consumer.Receive(message, &bytes), Received::kMalformed);
    consumer.PublishHead();
    return last == Received::kMessage ? std::string(message, bytes) : "";
  }

  std::unique_ptr<Cell[]> cells;
  ConsumerLine consumer_line = {};
  ProducerLine producer_line = {};
  RingProducer producer;
  RingConsumer consumer;
  Received last = Received::kNothing;
};

TEST(RingTest, AShortMessageTakesOneLine) {
  RingPair ring;
  ASSERT_TRUE(ring.producer.Send(std::string(kCellPayloadBytes, 'a'), ""));
  // Golden: lap 1, 56 bytes.
  EXPECT_EQ(ring.cells[0].tag.load(), 0x0000000100000038u);
  EXPECT_EQ(ring.cells[0].payload[0].load(), 0x6161616161616161u);
  EXPECT_EQ(ring.cells[1].tag.load(), 0u);
  EXPECT_EQ(ring.cells[1].payload[0].load(), 0u);
}

TEST(RingTest, NoStrayBytesOfThisProcessReachThePeer) {
  RingPair ring;
  // Longer messages sent before leave their bytes on the stack, at any place in a cell.
  size_t at = 0;
  for (size_t bytes = 1; bytes <= 2 * kCellPayloadBytes; ++bytes) {
    const std::string longer(3 * kCellPayloadBytes, 'y');
    ASSERT_TRUE(ring.producer.Send(longer, ""));
    ASSERT_EQ(ring.Receive(), longer);
    at += CellsOf(longer.size());
    const std::string message(bytes, 'x');
    ASSERT_TRUE(ring.producer.Send(message, ""));
    std::string payload;
    for (size_t cell = 0; cell < CellsOf(bytes); ++cell, ++at) {
      for (const auto& word : ring.cells[at % kCells].payload) {
        const uint64_t bits = word.load();
        payload.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
      }
    }
    ASSERT_EQ(payload, message + std::string(payload.size() - bytes, '\0'));
    ASSERT_EQ(ring.Receive(), message);
  }
}

// Compared with a queue as the model, through many laps.
TEST(RingTest, RandomInterleavingsKeepOrderAndBytes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    RingPair ring;
    std::deque<std::string> model;
    uint64_t refusals = 0;
    const size_t longest = seed % 2 == 0 ? 200 : kMaxMessageBytes;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        std::string message(1 + random() % longest, static_cast<char>(random()));
        message[message.size() / 2] = static_cast<char>(step);
        const size_t split = random() % (message.size() + 1);
        if (ring.producer.Send(absl::string_view(message).substr(0, split), absl::string_view(message).substr(split))) {
          model.push_back(message);
        } else {
          ++refusals;
          // Expect: it was really full, except for the unpublished quarter.
          size_t used = 0;
          for (const std::string& queued : model) used += CellsOf(queued.size());
          ASSERT_GT(used + CellsOf(message.size()) + kCells / 4, kCells);
        }
      } else {
        ASSERT_EQ(ring.consumer.Ready(), !model.empty());
        ASSERT_EQ(ring.Receive(), model.empty() ? "" : model.front());
        if (!model.empty()) model.pop_front();
      }
    }
    EXPECT_GT(refusals, 0u);
  }
}

TEST(RingTest, TwoThreadsKeepOrderAndBytes) {
  RingPair ring;
  constexpr uint32_t kMessages = 50'000;
  std::atomic<bool> give_up{false};
  std::thread producer([&] {
    std::mt19937_64 random(7);
    for (uint32_t i = 0; i < kMessages; ++i) {
      const std::string message = absl::StrCat(i, "/", std::string(random() % 300, static_cast<char>('a' + i % 26)));
      while (!ring.producer.Send(message, "")) {
        if (give_up.load(std::memory_order_relaxed)) return;
        std::this_thread::yield();
      }
    }
  });
  std::mt19937_64 random(7);
  for (uint32_t i = 0; i < kMessages && !give_up.load(); ++i) {
    const std::string expected = absl::StrCat(i, "/", std::string(random() % 300, static_cast<char>('a' + i % 26)));
    std::string message;
    while ((message = ring.Receive()).empty()) std::this_thread::yield();
    if (message != expected) {
      ADD_FAILURE() << "message " << i << " is " << message;
      give_up.store(true);
    }
  }
  producer.join();
}

// The consumer waits at the tag while long messages are stored: a tag visible before its payload would deliver old
// bytes.
TEST(RingTest, APayloadIsThereWhenItsTagIs) {
  RingPair ring;
  constexpr uint64_t kMessages = 4'000;
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> give_up{false};
  std::thread producer([&] {
    uint64_t words[kMaxMessageBytes / sizeof(uint64_t)];
    for (uint64_t i = 0; i < kMessages; ++i) {
      for (uint64_t& word : words) word = i;
      while (taken.load(std::memory_order_acquire) != i) {
        if (give_up.load(std::memory_order_relaxed)) return;
        std::this_thread::yield();
      }
      ASSERT_TRUE(ring.producer.Send(absl::string_view(reinterpret_cast<char*>(words), sizeof(words)), ""));
    }
  });
  uint64_t words[RingConsumer::RoomFor(kMaxMessageBytes) / sizeof(uint64_t)];
  for (uint64_t i = 0; i < kMessages && !give_up.load(); ++i) {
    size_t bytes = 0;
    // Mostly spinning, so that both run at the same time if there are two CPUs.
    for (uint64_t spins = 0; ring.consumer.Receive(reinterpret_cast<char*>(words), &bytes) == Received::kNothing;
         ++spins) {
      if (spins % 1024 == 1023) std::this_thread::yield();
    }
    ring.consumer.PublishHead();
    EXPECT_EQ(bytes, kMaxMessageBytes);
    for (size_t at = 0; at < bytes / sizeof(uint64_t); ++at) {
      if (words[at] == i) continue;
      ADD_FAILURE() << "message " << i << " has bytes of message " << words[at];
      give_up.store(true);
      break;
    }
    taken.store(i + 1, std::memory_order_release);
  }
  producer.join();
}

// Whatever a hostile producer leaves in the ring, the consumer stays inside its memory and reports what it saw.
TEST(RingTest, RandomCellsNeverHurtTheConsumer) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    RingPair ring;
    alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes) + 8];
    memset(message, 0x55, sizeof(message));
    bool usable = true;
    for (int step = 0; step < 200 && usable; ++step) {
      for (size_t i = 0; i < kCells; ++i) {
        uint64_t tag = random();
        // Including tags that look partly valid.
        if (tag % 2 == 0) tag = uint64_t{1} << 32 | (random() % (2 * kMaxMessageBytes));
        ring.cells[i].tag.store(tag, std::memory_order_relaxed);
        ring.cells[i].payload[0].store(random(), std::memory_order_relaxed);
      }
      size_t bytes = 0;
      switch (ring.consumer.Receive(message, &bytes)) {
        case Received::kMessage:
          ASSERT_GE(bytes, 1u);
          ASSERT_LE(bytes, kMaxMessageBytes);
          break;
        case Received::kMalformed:
          usable = false;
          break;
        case Received::kNothing:
          break;
      }
      ring.consumer.PublishHead();
    }
    for (size_t i = RingConsumer::RoomFor(kMaxMessageBytes); i < sizeof(message); ++i) ASSERT_EQ(message[i], 0x55);
  }
}

TEST(RingTest, MessagesOfNoOrTooManyBytesAreMalformed) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{kMaxMessageBytes + 1}, uint64_t{0xffff}, uint64_t{0x10008}}) {
    RingPair ring;
    ring.cells[0].tag.store(uint64_t{1} << 32 | bytes);
    alignas(8) char message[RingConsumer::RoomFor(kMaxMessageBytes)];
    size_t received = 0;
    EXPECT_EQ(ring.consumer.Receive(message, &received), Received::kMalformed) << bytes;
  }
}

// A hostile consumer publishes any head: the producer stays inside the ring.
TEST(RingTest, RandomHeadsNeverHurtTheProducer) {
  std::mt19937_64 random(3);
  RingPair ring;
  const std::string message(kMaxMessageBytes, 'm');
  int sent = 0;
  for (int step = 0; step < 20'000; ++step) {
    ring.consumer_line.head.store(random() % 2 == 0 ? random() : random() % 4096);
    if (ring.producer.Send(message, "")) ++sent;
  }
  EXPECT_GT(sent, 0);
}

TEST(RingTest, TheSleeperIsTakenOnce) {
  RingPair ring;
  EXPECT_FALSE(ring.producer.TakeSleeper());
  ring.consumer.SetSleeping(true);
  EXPECT_TRUE(ring.producer.TakeSleeper());
  EXPECT_FALSE(ring.producer.TakeSleeper());
  ring.consumer.SetSleeping(true);
  ring.consumer.SetSleeping(false);
  EXPECT_FALSE(ring.producer.TakeSleeper());
}

TEST(RingTest, WhoWaitsForRoomIsToldWhenThereIsSome) {
  RingPair ring;
  EXPECT_FALSE(ring.producer.AwaitRoom()) << "there is room";
  const std::string message(1000, 'm');
  while (ring.producer.Send(message, "")) {
  }
  EXPECT_TRUE(ring.producer.AwaitRoom());
  alignas(8) char out[RingConsumer::RoomFor(kMaxMessageBytes)];
  size_t bytes;
  bool told = false;
  while (!told && ring.consumer.Receive(out, &bytes) == Received::kMessage) told = ring.consumer.PublishHead();
  EXPECT_TRUE(told);
  EXPECT_TRUE(ring.producer.Send(message, ""));
}

}  // namespace
}  // namespace farlook::rdma::shm
