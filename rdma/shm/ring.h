// Rings of messages between two processes that do not trust each other.
//
// A ring is an array of cells of one cache line each; the first word of a cell is its tag:
//
//     tag   | bits 63..32: lap, 1 in the first round | bits 31..16: 0 | bits 15..0: bytes of the message |
//     cell  | tag: 8 bytes | payload: 56 bytes |
//
// A message takes consecutive cells (modulo the ring); only the tag of its first cell is used. The consumer polls only
// that tag, so a short message moves one cache line.
//
// Invariants:
//   * A message's payload is stored before its first tag.
//   * A position grows for ever; its cell is position mod cells, its lap 1 + position / cells.
//   * The consumer publishes how far it has read once in a quarter of the ring.
//   * A hostile other side can at worst cause nonsense in messages: every shared word is loaded once, then checked;
//     indices are masked; state that a side needs for its own safety is in its own memory.
//
// Ordering: the release of a tag pairs with the consumer's acquire of it; the release of `head` with the producer's
// acquire. Falling asleep and waking follow Dekker: each side stores (tag, `sleeping`; `head`, `wants_room`), passes a
// seq_cst fence, and loads what the other stores.
//
// Thread safety: one thread at each end.
#ifndef FARLOOK_RDMA_SHM_RING_H_
#define FARLOOK_RDMA_SHM_RING_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/config.h"
#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

struct alignas(kCellBytes) Cell {
  std::atomic<uint64_t> tag;
  std::atomic<uint64_t> payload[kCellPayloadBytes / sizeof(uint64_t)];
};
static_assert(sizeof(Cell) == kCellBytes);

// Two lines each: hardware fetches lines in pairs.
struct alignas(2 * kCacheLineBytes) ConsumerLine {
  std::atomic<uint64_t> head;       // cells read; stored by the consumer
  std::atomic<uint32_t> sleeping;   // 1: wake the consumer at a message; it sets this, the producer takes it
  std::atomic<uint32_t> processor;  // 1 + last known processor of the consumer's thread; 0: unknown
};
struct alignas(2 * kCacheLineBytes) ProducerLine {
  std::atomic<uint32_t> wants_room;  // 1: wake the producer when `head` moves; it sets this, the consumer takes it
};

inline constexpr size_t kCellWords = kCellPayloadBytes / sizeof(uint64_t);

constexpr size_t CellsOf(size_t message_bytes) { return (message_bytes + kCellPayloadBytes - 1) / kCellPayloadBytes; }

#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
// Copies a cell's payload by vectors. In assembler, so that it is loaded once, whatever a hostile peer stores
// meanwhile.
inline void CopyPayload(void* to, const void* from) {
  asm volatile(
      "movdqu (%1), %%xmm0\n\t"
      "movdqu 16(%1), %%xmm1\n\t"
      "movdqu 32(%1), %%xmm2\n\t"
      "movq 48(%1), %%xmm3\n\t"
      "movdqu %%xmm0, (%0)\n\t"
      "movdqu %%xmm1, 16(%0)\n\t"
      "movdqu %%xmm2, 32(%0)\n\t"
      "movq %%xmm3, 48(%0)"
      :
      : "r"(to), "r"(from)
      : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}
#endif

// Copy a whole cell's payload to and from private memory, by vectors if possible. Words need not be whole: the tag,
// which is stored later and loaded earlier, orders them. Thread sanitizer sees words.
inline void LoadPayload(const Cell& cell, void* to) {
#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
  CopyPayload(to, cell.payload);
#else
  for (size_t i = 0; i < kCellWords; ++i) {
    const uint64_t word = cell.payload[i].load(std::memory_order_relaxed);
    memcpy(static_cast<char*>(to) + i * sizeof(word), &word, sizeof(word));
  }
#endif
}
inline void StorePayload(const uint64_t* from, Cell* cell) {
#if defined(__x86_64__) && !defined(ABSL_HAVE_THREAD_SANITIZER)
  CopyPayload(cell->payload, from);
#else
  for (size_t i = 0; i < kCellWords; ++i) cell->payload[i].store(from[i], std::memory_order_relaxed);
#endif
}

// Copies a head. Heads of requests and replies are mostly slightly longer than 32 bytes; for these most of the cost of
// memcpy is its call.
inline void CopyHead(void* to, absl::string_view head) {
  const size_t bytes = head.size();
  if (bytes - 32 > 64 - 32) [[unlikely]] {
    if (bytes != 0) memcpy(to, head.data(), bytes);
    return;
  }
  struct Piece {
    char bytes[16];
  };
  const auto load = [head](size_t at) {
    Piece piece;
    memcpy(&piece, head.data() + at, sizeof piece);
    return piece;
  };
  const auto store = [to](size_t at, Piece piece) { memcpy(static_cast<char*>(to) + at, &piece, sizeof piece); };
  const Piece a = load(0), b = load(16), c = load(bytes - 32), d = load(bytes - 16);  // pieces may overlap
  store(0, a);
  store(16, b);
  store(bytes - 32, c);
  store(bytes - 16, d);
}

// Clears a flag that the other side set. If several threads ask at once, it returns true to one of them.
inline bool TakeFlag(std::atomic<uint32_t>& flag) {
  return ABSL_PREDICT_FALSE(flag.load(std::memory_order_relaxed) != 0) &&
         flag.exchange(0, std::memory_order_relaxed) != 0;
}

class RingProducer {
 public:
  RingProducer() = default;
  // `cells` is a power of two. The memory is all zeros and must outlive this.
  RingProducer(Cell* ring, size_t cells, ConsumerLine* consumer, ProducerLine* producer)
      : ring_(ring),
        cells_(cells),
        lap_shift_(std::countr_zero(cells)),
        limit_(cells),
        consumer_(consumer),
        producer_(producer) {}

  // Copies the message (1 to kMaxMessageBytes) into the ring; the consumer sees it at once. Returns false if there is
  // no room.
  bool Send(absl::string_view head, absl::string_view body) {
    // Most replies have one cell.
    return head.size() + body.size() <= kCellPayloadBytes ? SendCells<1>(head, body) : SendLong(head, body);
  }

  // Called after a batch: returns whether the consumer sleeps and must be woken now.
  bool TakeSleeper() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return TakeFlag(consumer_->sleeping);
  }

  // The consumer's processor, as it reports it: see ConsumerLine.
  uint32_t processor() const { return consumer_->processor.load(std::memory_order_relaxed); }

  // Called after Send returned false: asks the consumer to wake this side when it has read more. Returns false if it
  // already has.
  bool AwaitRoom() {
    producer_->wants_room.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return !MakeRoom(kMaxMessageCells);
  }

 private:
  [[gnu::noinline]] bool SendLong(absl::string_view head, absl::string_view body) {
    return SendCells<kMaxMessageCells>(head, body);
  }
  // Sends a message of at most kMost cells.
  template <size_t kMost>
  [[gnu::always_inline]] bool SendCells(absl::string_view head, absl::string_view body) {
    const size_t bytes = head.size() + body.size();
    const size_t needed = kMost == 1 ? 1 : CellsOf(bytes);
    if (ABSL_PREDICT_FALSE(next_ + needed > limit_) && !MakeRoom(needed)) return false;
    uint64_t words[kMost * kCellWords];
    // Zeroes the whole last cell: whole cells are stored, and the peer must not get stray bytes.
    for (size_t i = 0; i < kCellWords; ++i) words[(needed - 1) * kCellWords + i] = 0;
    CopyHead(words, head);
    if (!body.empty()) memcpy(reinterpret_cast<char*>(words) + head.size(), body.data(), body.size());
    Cell* const ring = ring_;
    const Cell* const end = ring + cells_;
    Cell* const first = ring + (next_ & (cells_ - 1));
    Cell* at = first;
    for (const uint64_t *from = words, *const last = words + needed * kCellWords; from != last; from += kCellWords) {
      StorePayload(from, at);
      if (ABSL_PREDICT_FALSE(++at == end)) at = ring;
    }
    const uint64_t lap = static_cast<uint32_t>(1 + (next_ >> lap_shift_));
    first->tag.store(lap << 32 | bytes, std::memory_order_release);
    next_ += needed;
    return true;
  }

  bool MakeRoom(size_t needed) {
    const uint64_t head = consumer_->head.load(std::memory_order_acquire);
    // A false head lets this side overwrite unread messages, which harms only the peer that wrote it.
    limit_ = head + cells_;
    return next_ + needed <= limit_;
  }

  Cell* ring_ = nullptr;
  size_t cells_ = 0;
  int lap_shift_ = 0;   // a position's lap is 1 + the position shifted right by this
  uint64_t next_ = 0;   // position of the next message
  uint64_t limit_ = 0;  // positions below this may be written
  ConsumerLine* consumer_ = nullptr;
  ProducerLine* producer_ = nullptr;
};

enum class Received : uint8_t { kNothing, kMessage, kMalformed };

class RingConsumer {
 public:
  // Receive() stores whole cells.
  static constexpr size_t RoomFor(size_t message_bytes) { return CellsOf(message_bytes) * kCellPayloadBytes; }

  RingConsumer() = default;
  RingConsumer(Cell* ring, size_t cells, ConsumerLine* consumer, ProducerLine* producer)
      : at_(ring), ring_(ring), end_(ring + cells), quarter_(cells / 4), consumer_(consumer), producer_(producer) {}

  bool Ready() const { return TagArrived(at_->tag.load(std::memory_order_acquire)); }

  // Copies the next message to `to`, which has room for RoomFor(kMaxMessageBytes) and is 8-byte aligned. After
  // kMalformed the ring is unusable.
  Received Receive(char* to, size_t* message_bytes) {
    const uint64_t tag = at_->tag.load(std::memory_order_acquire);
    if (ABSL_PREDICT_TRUE(!TagArrived(tag))) return Received::kNothing;
    const size_t bytes = static_cast<uint32_t>(tag);
    if (bytes == 0 || bytes > kMaxMessageBytes) return Received::kMalformed;
    const Cell* at = at_;
    const char* const end = to + RoomFor(bytes);
    next_ += CellsOf(bytes);
    for (; to != end; to += kCellPayloadBytes) {
      LoadPayload(*at, to);
      if (ABSL_PREDICT_FALSE(++at == end_)) {
        at = ring_;
        ++lap_;
      }
    }
    at_ = at;
    *message_bytes = bytes;
    return Received::kMessage;
  }

  // Returns whether the producer waits for room and must be woken now. Called after Receive.
  bool PublishHead() {
    if (ABSL_PREDICT_TRUE(next_ - published_ < quarter_)) return false;
    consumer_->head.store(next_, std::memory_order_release);
    published_ = next_;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return TakeFlag(producer_->wants_room);
  }

  // To fall asleep: SetSleeping(true) on every ring, FenceSleep() once, then sleep if no ring is Ready().
  void SetSleeping(bool sleeping) { consumer_->sleeping.store(sleeping ? 1 : 0, std::memory_order_relaxed); }
  // Stores only changes, so that the line stays with the producer.
  void ShowProcessor(uint32_t processor) {
    if (ABSL_PREDICT_TRUE(processor == processor_)) return;
    processor_ = processor;
    consumer_->processor.store(processor, std::memory_order_relaxed);
  }
  static void FenceSleep() { std::atomic_thread_fence(std::memory_order_seq_cst); }

 private:
  bool TagArrived(uint64_t tag) const { return tag >> 32 == lap_; }

  const Cell* at_ = nullptr;  // cell of the next message
  uint32_t lap_ = 1;          // lap of the next message
  const Cell* ring_ = nullptr;
  const Cell* end_ = nullptr;
  uint64_t quarter_ = 0;  // of the ring's cells
  uint64_t next_ = 0;     // position of the next message
  uint64_t published_ = 0;
  uint32_t processor_ = 0;
  ConsumerLine* consumer_ = nullptr;
  ProducerLine* producer_ = nullptr;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_RING_H_
