// The cache's marks for each piece: evictable, young, and the number of touches. Four bits for each 64 bytes of the
// region, which no two pieces share (an item has at least 40 bytes, and pieces are multiples of 32): 0.8 % of the
// region, in the server's own memory. Only the marks that are used take physical memory.
//
//      3 evictable | 2 young | 1..0 touches, up to three
//
// Thread safety: marks are set under the lock of the partition that owns the piece; any thread may touch. A touch that
// coincides with a change of the same byte may be lost, the change never is.
#ifndef FARLOOK_KV_CACHE_PIECE_MARKS_H_
#define FARLOOK_KV_CACHE_PIECE_MARKS_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace farlook::kv {

class PieceMarks {
 public:
  static constexpr uint8_t kTouches = 3, kYoung = 4, kEvictable = 8;

  explicit PieceMarks(uint64_t region_bytes) : bytes_(static_cast<uint8_t*>(std::calloc(region_bytes / 128, 1))) {}
  bool ok() const { return bytes_ != nullptr; }

  uint8_t Get(uint64_t offset) const { return At(offset).load(std::memory_order_relaxed) >> Shift(offset) & 0xf; }
  void Set(uint64_t offset, uint8_t marks) {
    const std::atomic_ref<uint8_t> byte = At(offset);
    const int kept = byte.load(std::memory_order_relaxed) & ~(0xf << Shift(offset));
    byte.store(static_cast<uint8_t>(kept | marks << Shift(offset)), std::memory_order_relaxed);
  }

  void Prefetch(uint64_t offset) const { __builtin_prefetch(&bytes_.get()[offset / 128], /*rw=*/1); }

  // Records a use of the piece at `offset`. Returns false if no evictable piece is there. REQUIRES it lies in the
  // region.
  bool Touch(uint64_t offset) {
    const std::atomic_ref<uint8_t> byte = At(offset);
    uint8_t old = byte.load(std::memory_order_relaxed);
    for (;;) {
      const int marks = old >> Shift(offset);
      if ((marks & kEvictable) == 0) return false;
      if ((marks & kTouches) == kTouches) return true;
      const auto touched = static_cast<uint8_t>(old + (1 << Shift(offset)));
      if (byte.compare_exchange_weak(old, touched, std::memory_order_relaxed)) return true;
    }
  }

 private:
  struct Free {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };

  static int Shift(uint64_t offset) { return static_cast<int>(offset / 64 % 2 * 4); }
  std::atomic_ref<uint8_t> At(uint64_t offset) const { return std::atomic_ref<uint8_t>(bytes_.get()[offset / 128]); }

  const std::unique_ptr<uint8_t[], Free> bytes_;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_CACHE_PIECE_MARKS_H_
