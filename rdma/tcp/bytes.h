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

// What Grow() returns is a multiple of 8 as long as all that is appended is one.
class Bytes {
 public:
  const char* data() const { return memory() + begin_; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  absl::string_view view() const { return {data(), size()}; }

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
    words_.reset();
    capacity_ = 0;
  }

  bool MakeRoom(size_t bytes) {
    const size_t used = size();
    const size_t odd = begin_ % 8;                                        // kept, as the end's is
    if (begin_ - odd >= odd + used && odd + used + bytes <= capacity_) {  // moving costs no more than was consumed
      memcpy(memory() + odd, data(), used);
    } else {
      const size_t capacity = (std::max({kKeptBytes, 2 * used, used + bytes}) + odd + 7) & ~size_t{7};
      std::unique_ptr<uint64_t[]> words(new (std::nothrow) uint64_t[capacity / sizeof(uint64_t)]);
      if (words == nullptr) return false;
      if (used > 0) memcpy(reinterpret_cast<char*>(words.get()) + odd, data(), used);
      words_ = std::move(words);
      capacity_ = capacity;
    }
    begin_ = odd;
    end_ = odd + used;
    return true;
  }

  std::unique_ptr<uint64_t[]> words_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_BYTES_H_
