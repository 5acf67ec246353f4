#include "client/cli/context/ordered_window.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/context/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

// Takes all finished lines at the front.
void Take(OrderedWindow* window, std::vector<uint64_t>* lines) {
  while (const OrderedWindow::Entry* entry = window->DoneFront()) {
    lines->push_back(entry->line);
    window->PopFront();
  }
}

Pair PairOf(const std::string& key, const std::string& value) { return {.key = key, .value = value}; }

void PutWhenPossible(OrderedWindow* window, const std::string& key, const std::string& value, uint64_t line,
                     std::vector<uint64_t>* lines) {
  while (!window->CanWrite(PairOf(key, value))) {
    window->Wait();
    Take(window, lines);
  }
  window->Write(PairOf(key, value), /*insert_only=*/false, 1000, line);
}

TEST(OrderedWindowTest, ResultsComeInOrderThoughTheStoreHasNone) {
  MemoryStore store;
  OrderedWindow window(&store, 16, 1 << 20);
  std::vector<uint64_t> lines;
  for (uint64_t line = 1; line <= 1000; ++line) {
    PutWhenPossible(&window, absl::StrCat("k", line), "v", line, &lines);
  }
  while (!window.empty()) {
    window.Wait();
    Take(&window, &lines);
  }
  EXPECT_EQ(lines.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
  EXPECT_EQ(store.most_in_flight(), 16u);
  EXPECT_EQ(store.items().size(), 1000u);
}

TEST(OrderedWindowTest, WritesOfOneKeyKeepTheirOrderAndDoNotWaitForEachOther) {
  MemoryStore store;
  std::vector<uint64_t> lines;
  {
    OrderedWindow window(&store, 16, 1 << 20);
    for (uint64_t line = 1; line <= 1000; ++line) {
      PutWhenPossible(&window, absl::StrCat("k", line % 7), absl::StrCat(line), line, &lines);
    }
  }
  EXPECT_EQ(store.most_in_flight(), 16u);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(store.items()[absl::StrCat("k", i)].value, absl::StrCat(i <= 1000 % 7 ? 994 + i : 987 + i));
  }
}

TEST(OrderedWindowTest, BytesAreBounded) {
  MemoryStore store;
  OrderedWindow window(&store, 100, 1000);
  EXPECT_TRUE(window.CanWrite(PairOf("k", std::string(5000, 'x')))) << "one alone may be larger";
  window.Write(PairOf("a", std::string(600, 'x')), /*insert_only=*/false, 1000, 1);
  EXPECT_FALSE(window.CanWrite(PairOf("b", std::string(600, 'x'))));
  EXPECT_TRUE(window.CanWrite(PairOf("b", "x")));
}

TEST(OrderedWindowTest, GetsStartSlowlyAndReserveTheLargestValue) {
  MemoryStore store;
  store.Put("large", std::string(400, 'x'));
  OrderedWindow window(&store, 100, 1000);
  std::vector<uint64_t> lines;
  int started = 0;
  while (window.CanRead("large")) window.Read("large", 1000, static_cast<uint64_t>(++started));
  EXPECT_EQ(started, 8);
  // Expect: once a length is known, two fit in the bytes.
  while (!window.empty()) {
    window.Wait();
    Take(&window, &lines);
  }
  started = 0;
  while (window.CanRead("large")) window.Read("large", 1000, static_cast<uint64_t>(++started));
  EXPECT_EQ(started, 2);
}

// An existing counter takes several writes: those of a later line wait for the earlier one's.
TEST(OrderedWindowTest, SeveralWritesOfCountersKeepTheOrderOfTheirLines) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    MemoryStore store(seed);
    for (int i = 0; i < 3; ++i) store.counters()[absl::StrCat("c", i)] = -1;
    OrderedWindow window(&store, 16, 1 << 20);
    std::vector<uint64_t> lines;
    for (int line = 1; line <= 300; ++line) {
      const Pair pair = {.key = absl::StrCat("c", line % 3), .counter = line, .ttl_ms = line % 2 == 0 ? line : 0};
      while (!window.CanWrite(pair)) {
        window.Wait();
        Take(&window, &lines);
      }
      window.Write(pair, /*insert_only=*/false, 1000, static_cast<uint64_t>(line));
    }
    while (!window.empty()) {
      window.Wait();
      Take(&window, &lines);
    }
    ASSERT_EQ(lines.size(), 300u);
    EXPECT_EQ(store.counters()["c0"], 300);
    EXPECT_EQ(store.counters()["c1"], 298);
    EXPECT_EQ(store.counters()["c2"], 299);
    EXPECT_EQ(store.counter_ttls()["c0"], 300);
    EXPECT_EQ(store.counter_ttls()["c1"], 298);
    EXPECT_FALSE(store.counter_ttls().contains("c2"));
  }
}

TEST(OrderedWindowTest, FailuresOfTheInputHaveTheirTurn) {
  MemoryStore store;
  OrderedWindow window(&store, 16, 1000);
  window.Write(PairOf("a", "v"), /*insert_only=*/false, 1000, 1);
  window.Reject(absl::InvalidArgumentError("bad line"), 2);
  EXPECT_EQ(window.DoneFront(), nullptr);
  window.Wait();
  std::vector<uint64_t> lines;
  Take(&window, &lines);
  EXPECT_THAT(lines, testing::ElementsAre(1, 2));
  window.Wait();  // Expect: with nothing in flight it does not sleep.
}

}  // namespace
}  // namespace farlook::cli
