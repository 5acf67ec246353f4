// The server's clock, as seen by the table and by readers: microseconds since 2020-01-01 00:00 UTC. Items' expiry times
// are compared with it.
#ifndef FARLOOK_KV_READ_EXPIRY_CLOCK_H_
#define FARLOOK_KV_READ_EXPIRY_CLOCK_H_

#include <cstdint>

namespace farlook::kv {

// The server's own clock. It never goes back in an incarnation. Thread safety: any thread.
class TableClock {
 public:
  virtual ~TableClock() = default;
  virtual uint64_t NowUs() const = 0;
};

// A reader's bounds of it. Thread safety: its reader's thread.
class ReaderClock {
 public:
  struct Interval {
    uint64_t lo;  // the server's clock is certainly not before this
    uint64_t hi;  // and certainly not after this
  };

  virtual ~ReaderClock() = default;
  virtual Interval Now() = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_READ_EXPIRY_CLOCK_H_
