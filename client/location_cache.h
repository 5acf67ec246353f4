// Where keys were last seen: a bounded table from hashes to slots. It only ever saves a round trip: a reader checks the
// item that it finds there as any other, so a forgotten, stale or false entry does no harm but a READ.
//
// Eight slots to a line of 64 bytes; the hash picks the line. The slot's own fingerprint (16 bits of the hash that do
// not pick the line) is the tag, so an entry takes 8 bytes and one line in 8,000 lookups finds another key's. Each line
// keeps its entries by use: a hit moves up by one, a new one goes to the front, the last falls out.
#ifndef FARLOOK_CLIENT_LOCATION_CACHE_H_
#define FARLOOK_CLIENT_LOCATION_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kv/slot.h"

namespace farlook::client {

// Thread safety: one thread.
class LocationCache {
 public:
  LocationCache() = default;  // disabled: nothing is ever found
  ~LocationCache();
  LocationCache(const LocationCache&) = delete;
  LocationCache& operator=(const LocationCache&) = delete;

  // Begins empty with at most `max_bytes`, touched only as it fills. With less than one line it finds nothing.
  void Resize(uint64_t max_bytes);

  bool enabled() const { return lines_ != nullptr; }

  // Where the key of this hash was last seen, or an empty slot.
  kv::Slot Find(uint64_t hash);
  // REQUIRES slot is not empty and bears the hash's fingerprint.
  void Insert(uint64_t hash, kv::Slot slot);
  void Erase(uint64_t hash);
  // Forgets everything.
  void Clear();

  uint64_t memory_bytes() const { return line_count_ * sizeof(Line); }

 private:
  struct alignas(64) Line {
    std::array<uint64_t, 8> slots;  // most used first; zero: empty
  };

  Line& LineOf(uint64_t hash) {
    // The low 16 bits are the tag; a multiplication maps the others evenly to any number of lines.
    return lines_[static_cast<uint64_t>((static_cast<unsigned __int128>(hash & ~uint64_t{0xffff}) * line_count_) >>
                                        64)];
  }

  uint64_t line_count_ = 0;
  Line* lines_ = nullptr;  // mapped memory, which is zero until it is touched
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_LOCATION_CACHE_H_
