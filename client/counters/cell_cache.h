// The cells that this connection knows: a bounded table from keys to cells.
//
// A remembered location of an item is checked when it is read; a cell is changed blindly. So an entry must match the
// key exactly: it has two 64-bit hashes with different seeds. It is dropped with the connection, or when the server
// reports that its counter was deleted (by the first hash).
#ifndef FARLOOK_CLIENT_COUNTERS_CELL_CACHE_H_
#define FARLOOK_CLIENT_COUNTERS_CELL_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/layout/hash.h"

namespace farlook::client {

// Thread safety: one thread.
class CellCache {
 public:
  // Takes no memory before the first Insert; then at most `max_bytes`, touched only as it fills. With less than one
  // line it finds nothing.
  explicit CellCache(uint64_t max_bytes) : bucket_count_(max_bytes / sizeof(Bucket)) {}
  ~CellCache();
  CellCache(const CellCache&) = delete;
  CellCache& operator=(const CellCache&) = delete;

  // Identifies a key. `hasher` is the table's.
  struct Id {
    uint64_t hash = 0;
    uint64_t check = 0;
  };
  static Id IdOf(const kv::Hasher& hasher, absl::string_view key);

  // Returns the offset of the key's cell, or 0.
  uint64_t Find(const Id& id) const {
    if (buckets_ == nullptr) return 0;
    for (const Entry& entry : BucketOf(id.hash).entries) {
      if (entry.id.hash == id.hash && entry.id.check == id.check) return entry.cell;
    }
    return 0;
  }
  // REQUIRES cell != 0.
  void Insert(const Id& id, uint64_t cell);
  // Removes every key with this hash.
  void Erase(uint64_t hash);
  void Clear();

  uint64_t memory_bytes() const { return buckets_ == nullptr ? 0 : bucket_count_ * sizeof(Bucket); }

 private:
  struct Entry {
    Id id;
    uint64_t cell;  // 0: empty
  };
  struct alignas(64) Bucket {
    std::array<Entry, 2> entries;  // the last inserted first
  };

  Bucket& BucketOf(uint64_t hash) const {
    return buckets_[static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * bucket_count_) >> 64)];
  }

  uint64_t bucket_count_;
  Bucket* buckets_ = nullptr;  // mapped memory, zero until it is touched
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_COUNTERS_CELL_CACHE_H_
