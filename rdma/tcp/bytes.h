// Buffers of bytes that wait to be sent, to be completed, or to be taken. Without memory Append() returns false;
// nothing throws.
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

// Memory shared by several Bytes of which one at a time is large. A batch of answers is built and sent in one turn, and
// would otherwise allocate and free memory each time. Thread safety: one thread.
struct SpareMemory {
  static constexpr size_t kMostBytes = size_t{512} << 10;
  std::unique_ptr<uint64_t[]> words;
  size_t capacity = 0;
};

// Grow() returns multiples of 8 as long as all appended lengths are multiples of 8.
class Bytes {
 public:
  const char* data() const { return memory() + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  absl::string_view view() const { return {data(), size()}; }

  // Sets the spare memory that it takes and returns. `spare` must outlive this.
  void Use(SpareMemory* spare) { spare_ = spare; }

  // Appends `bytes`, to be written by the caller; returns null if there is no memory.
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

  // Frees a large buffer once it is empty.
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
  // Returns at least `wanted` bytes, or null words if there is no memory.
  SpareMemory Take(size_t wanted) {
    if (wanted > kKeptBytes && spare_ != nullptr && wanted <= spare_->capacity) return std::exchange(*spare_, {});
    return {std::unique_ptr<uint64_t[]>(new (std::nothrow) uint64_t[wanted / sizeof(uint64_t)]), wanted};
  }

  bool MakeRoom(size_t bytes) {
    const size_t used = size();
    const size_t odd = begin_ % 8;                                        // kept, as is that of the end
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
