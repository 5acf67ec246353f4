// The server's clock, as the table and as readers see it: microseconds since 2020-01-01 00:00 UTC, which items' expiry
// times are compared with.
#ifndef FARLOOK_KV_EXPIRY_CLOCK_H_
#define FARLOOK_KV_EXPIRY_CLOCK_H_

#include <cstdint>

namespace farlook::kv {

// The server's own. It never goes back in an incarnation. Thread safety: any thread.
class TableClock {
 public:
  virtual ~TableClock() = default;
  virtual uint64_t NowUs() const = 0;
};

// What a reader knows of it. Thread safety: its reader's thread.
class ReaderClock {
 public:
  struct Interval {
    uint64_t lo;  // the server's clock is surely not before this
    uint64_t hi;  // and surely not after this
  };

  virtual ~ReaderClock() = default;
  virtual Interval Now() = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_EXPIRY_CLOCK_H_
