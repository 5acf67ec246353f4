// Litmus tests of LoadWord and StoreWord: what a reader that saw one store may rely on. Each test also passes plain
// memory between the threads, so that thread sanitizer reports a missing order that the processor happens to keep. See
// docs/memory-order.md.
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kv/layout/words.h"

namespace farlook::kv {
namespace {

constexpr size_t kRounds = 2'000;

// Each round has its own words, so that only the order under test synchronizes the threads.
class WordsOrderTest : public testing::Test {
 protected:
  static void Await(const uint64_t* word) {
    while (LoadWord(word) == 0) std::this_thread::yield();
  }

  std::vector<uint64_t> plain_ = std::vector<uint64_t>(kRounds);
  std::vector<uint64_t> x_ = std::vector<uint64_t>(kRounds);
  std::vector<uint64_t> y_ = std::vector<uint64_t>(kRounds);
};

// A reader sees "alive" only with everything that was stored before it: body, old item DEAD, slot.
TEST_F(WordsOrderTest, MessagePassing) {
  std::thread writer([this] {
    for (size_t i = 0; i < kRounds; ++i) {
      plain_[i] = i;
      StoreWord(&x_[i], 1);
      StoreWord(&y_[i], 1);
    }
  });
  uint64_t wrong = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    Await(&y_[i]);
    wrong += LoadWord(&x_[i]) != 1 || plain_[i] != i;
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

// A second reader that was notified by a first one sees what the first one saw: no old value after a new one.
TEST_F(WordsOrderTest, WriteToReadCausality) {
  std::thread writer([this] {
    for (size_t i = 0; i < kRounds; ++i) {
      plain_[i] = i;
      StoreWord(&x_[i], 1);
    }
  });
  std::thread first_reader([this] {
    for (size_t i = 0; i < kRounds; ++i) {
      Await(&x_[i]);
      StoreWord(&y_[i], 1);
    }
  });
  uint64_t wrong = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    Await(&y_[i]);
    wrong += LoadWord(&x_[i]) != 1 || plain_[i] != i;
  }
  writer.join();
  first_reader.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace farlook::kv
