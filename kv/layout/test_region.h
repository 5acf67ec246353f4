// For tests: a region in plain memory with its table, and a reader that fetches from it directly.
#ifndef FARLOOK_KV_LAYOUT_TEST_REGION_H_
#define FARLOOK_KV_LAYOUT_TEST_REGION_H_

#include <sys/mman.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/layout/hash.h"
#include "kv/layout/sanitized.h"
#include "kv/layout/words.h"
#include "kv/read/directory.h"
#include "kv/read/expiry_clock.h"
#include "kv/read/lookup.h"
#include "kv/table/table.h"

namespace farlook::kv {

// Zeroed memory that costs nothing until it is touched.
class TestMemory {
 public:
  explicit TestMemory(size_t bytes) : bytes_(bytes) {
    base_ = static_cast<char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) std::abort();
  }
  ~TestMemory() { munmap(base_, bytes_); }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;

  absl::Span<char> span() const { return {base_, bytes_}; }

 private:
  char* base_;
  size_t bytes_;
};

// The server's clock. Readers know it with an error of at most `error_us` in either direction.
class TestClock : public TableClock, public ReaderClock {
 public:
  uint64_t NowUs() const override {
    const uint64_t now = now_us;
    if (after_look) after_look();
    return now;
  }
  Interval Now() override {
    ++looks;
    return {now_us - error_us, now_us + error_us};
  }

  uint64_t now_us = 1'000'000'000;
  uint64_t error_us = 0;
  int looks = 0;                     // by readers
  std::function<void()> after_look;  // of the table
};

// Reads a table as a client does, word by word, from memory that a writer may be changing.
class TestReader {
 public:
  explicit TestReader(absl::Span<const char> region) : region_(region), directory_(region.size(), 4096) {
    Pump(directory_.Load());
    hasher_ = std::make_unique<Hasher>(directory_.header().hash_seed);
  }

  // Returns the value, or nothing if it is absent. Lookups that would have to ask the server also return nothing, and
  // are counted.
  std::optional<std::string> Get(absl::string_view key, Slot cached = Slot()) {
    const ReaderContext context{hasher_.get(), &directory_, region_.size(), clock};
    Lookup::Step step = lookup_.Start(context, key, (*hasher_)(key), cached);
    while (true) {
      switch (step) {
        case Lookup::Step::kRead:
          step = FeedLookup();
          break;
        case Lookup::Step::kRefresh:
          Pump(directory_.Refresh(lookup_.hash(), lookup_.stale_entry()));
          ++refreshes_;
          step = lookup_.Resume();
          break;
        case Lookup::Step::kFound:
          return std::string(lookup_.item().value);
        case Lookup::Step::kNotFound:
          if (directory_.Trusts(lookup_.hash(), lookup_.entry(), NowNs())) return std::nullopt;
          if (believe_any_bucket) return std::nullopt;
          if (directory_.Find(lookup_.hash()) == lookup_.entry()) {
            Pump(directory_.Confirm());
            ++confirmations_;
          }
          if (!(directory_.Find(lookup_.hash()) == lookup_.entry())) step = lookup_.Resume();
          break;
        case Lookup::Step::kAskServer:
          ++gave_up_;
          return std::nullopt;
      }
    }
  }

  const Lookup& lookup() const { return lookup_; }
  const Directory& directory() const { return directory_; }
  const Hasher& hasher() const { return *hasher_; }
  uint64_t gave_up() const { return gave_up_; }
  uint64_t refreshes() const { return refreshes_; }
  uint64_t confirmations() const { return confirmations_; }

  // The clock of everything that depends on time; empty: time stands still.
  std::function<int64_t()> now_ns;
  bool believe_any_bucket = false;  // breaks the rule, to show its purpose
  ReaderClock* clock = nullptr;
  // Called before each fetch: a test can run the writer here.
  std::function<void(const Range&)> before_fetch;
  // Called before each word of a fetch: a READ is not atomic, and fetches its words in any order.
  std::function<void(const Range&, size_t word)> before_word;
  bool backwards = false;  // the last word first
  // Returns whether the last fetch took too long.
  std::function<bool(const Range&)> is_late;
  // Feeds items in two pieces if they are longer than the first.
  bool split_items = false;

 private:
  int64_t NowNs() const { return now_ns ? now_ns() : 0; }

  Lookup::Step FeedLookup() {
    const Range range = lookup_.wanted();
    const absl::string_view bytes = Fetch(range);
    const bool late = is_late && is_late(range);
    const size_t head = lookup_.item_head_bytes();
    if (!split_items || !lookup_.wants_item() || range.bytes <= head) return lookup_.Feed(bytes, late);
    return lookup_.Feed(bytes.substr(0, head), late, bytes.substr(head));
  }

  absl::string_view Fetch(const Range& range) {
    if (range.offset > region_.size() || range.bytes > region_.size() - range.offset) std::abort();
    if (before_fetch) before_fetch(range);
    buffer_.resize((range.bytes + 7) / 8);
    for (size_t n = 0; n < buffer_.size(); ++n) {
      const size_t i = backwards ? buffer_.size() - 1 - n : n;
      if (before_word) before_word(range, i);
      buffer_[i] = LoadWord(region_.data() + range.offset + 8 * i);
    }
    return {reinterpret_cast<const char*>(buffer_.data()), range.bytes};
  }

  void Pump(Directory::Step step) {
    while (step == Directory::Step::kRead) {
      directory_.Posting(NowNs());
      auto next = directory_.Feed(Fetch(directory_.wanted()));
      if (!next.ok()) std::abort();
      step = *next;
    }
  }

  absl::Span<const char> region_;
  Directory directory_;
  std::unique_ptr<Hasher> hasher_;
  Lookup lookup_;
  std::vector<uint64_t> buffer_;
  uint64_t gave_up_ = 0;
  uint64_t refreshes_ = 0;
  uint64_t confirmations_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_TEST_REGION_H_
