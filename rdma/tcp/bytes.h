// Bytes that wait: to be sent, for their rest, or to be taken. Without memory Append() says so, and nothing throws.
#ifndef FARLOOK_RDMA_TCP_BYTES_H_
#define FARLOOK_RDMA_TCP_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/string_view.h"

namespace farlook::rdma::tcp {

// A piece of memory that those share of which one at a time has much: a batch of answers is put together and sent in
// one turn, and would else take memory from the system, and give it back, each time. Thread safety: one thread.
struct SpareMemory {
  static constexpr size_t kMostBytes = size_t{512} << 10;
  std::unique_ptr<uint64_t[]> words;
  size_t capacity = 0;
};

// What Grow() returns is a multiple of 8 as long as all that is appended is one.
class Bytes {
 public:
  const char* data() const { return memory() + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  absl::string_view view() const { return {data(), size()}; }

  // Whose memory it may take and give back. `spare` outlives it.
  void Use(SpareMemory* spare) { spare_ = spare; }

  // `bytes` more, to be written by the caller; null when there is no memory.
  char* Grow(size_t bytes) {
    if (end_ + bytes > capacity_ && !MakeRoom(bytes)) return nullptr;
    end_ += bytes;
    return memory() + end_ - bytes;
  }

  bool Append(absl::string_view bytes) {
    if (bytes.empty()) return true;
    char* const to = Grow(bytes.size());
    if (to == nullptr) return false;
    memcpy(to, bytes.data(), bytes.size());
    return true;
  }

  // Gives memory back when nothing is left of much.
  void Consume(size_t bytes) {
    begin_ += bytes;
    if (begin_ != end_) return;
    begin_ = end_ = 0;
    if (capacity_ > kKeptBytes) Free();
  }
  void Clear() { Consume(size()); }

 private:
  static constexpr size_t kKeptBytes = 4096;

  char* memory() const { return reinterpret_cast<char*>(words_.get()); }
  void Free() {
    if (spare_ != nullptr && capacity_ > spare_->capacity && capacity_ <= SpareMemory::kMostBytes) {
      *spare_ = {std::move(words_), capacity_};
    }
    words_.reset();
    capacity_ = 0;
  }
  // At least `wanted` bytes; without words: there is no memory.
  SpareMemory Take(size_t wanted) {
    if (wanted > kKeptBytes && spare_ != nullptr && wanted <= spare_->capacity) return std::exchange(*spare_, {});
    return {std::unique_ptr<uint64_t[]>(new (std::nothrow) uint64_t[wanted / sizeof(uint64_t)]), wanted};
  }

  bool MakeRoom(size_t bytes) {
    const size_t used = size();
    const size_t odd = begin_ % 8;                                        // kept, as the end's is
    if (begin_ - odd >= odd + used && odd + used + bytes <= capacity_) {  // moving costs no more than was consumed
      memcpy(memory() + odd, data(), used);
    } else {
      const size_t capacity = (std::max({kKeptBytes, 2 * used, used + bytes}) + odd + 7) & ~size_t{7};
      SpareMemory taken = Take(capacity);
      if (taken.words == nullptr) return false;
      if (used > 0) memcpy(reinterpret_cast<char*>(taken.words.get()) + odd, data(), used);
      words_ = std::move(taken.words);
      capacity_ = taken.capacity;
    }
    begin_ = odd;
    end_ = odd + used;
    return true;
  }

  SpareMemory* spare_ = nullptr;
  std::unique_ptr<uint64_t[]> words_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_BYTES_H_
