// Keys that were evicted while they were young. A key that is put again after a miss and is found here is known to be
// wanted. Only 32 bits of each key's hash are kept, in lines of eight of which the oldest falls out. One key is
// therefore sometimes taken for another, which only makes that one live longer.
//
// Thread safety: one thread at a time.
#ifndef FARLOOK_KV_CACHE_GHOSTS_H_
#define FARLOOK_KV_CACHE_GHOSTS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace farlook::kv {

class Ghosts {
 public:
  // Uses at most `most_bytes`, rounded down to a power of two of lines of 32 bytes.
  explicit Ghosts(uint64_t most_bytes) : most_lines_(std::bit_floor(std::max<uint64_t>(most_bytes / kLineBytes, 1))) {}

  // Keeps about as many ghosts as there are `items`. Loses some when it grows.
  void Add(uint64_t hash, uint64_t items) {
    if (lines_ == 0) Allocate();
    if (lines_ == 0) return;
    while (lines_ < most_lines_ && lines_ * kPerLine < items) lines_ *= 2;
    Line& line = memory_[LineOf(hash)];
    std::copy_backward(line.begin(), line.end() - 1, line.end());
    line[0] = TagOf(hash);
  }

  // Returns whether the key is a ghost, and removes it.
  bool Take(uint64_t hash) {
    if (lines_ == 0) return false;
    Line& line = memory_[LineOf(hash)];
    const auto at = std::find(line.begin(), line.end(), TagOf(hash));
    if (at == line.end()) return false;
    std::copy(at + 1, line.end(), at);
    line.back() = 0;
    return true;
  }

  uint64_t bytes() const { return lines_ * kLineBytes; }

 private:
  static constexpr size_t kPerLine = 8, kLineBytes = kPerLine * 4;
  static constexpr uint64_t kFirstLines = 64;
  using Line = std::array<uint32_t, kPerLine>;

  // A hash's middle bits select a bucket of the index and its upper ones a partition, so all bits are mixed.
  static uint64_t Mix(uint64_t hash) { return hash * 0x9e3779b97f4a7c15; }
  static uint32_t TagOf(uint64_t hash) { return static_cast<uint32_t>(Mix(hash) >> 8) | 1; }
  size_t LineOf(uint64_t hash) const { return static_cast<size_t>(Mix(hash) >> 40) & (lines_ - 1); }
  // Allocates the maximum number of lines, under a lock. The kernel provides zeroed memory on first touch, so growing
  // only means using more of it.
  void Allocate() {
    memory_.reset(static_cast<Line*>(std::calloc(most_lines_, sizeof(Line))));
    if (memory_ != nullptr) lines_ = std::min(most_lines_, kFirstLines);
  }

  struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
  };

  const uint64_t most_lines_;
  std::unique_ptr<Line[], FreeMemory> memory_;
  uint64_t lines_ = 0;  // in use, a power of two
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_CACHE_GHOSTS_H_
