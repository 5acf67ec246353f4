// The place of a key in the table, as its caller knows it: its hash and, after a look ahead, a hint.
#ifndef FARLOOK_KV_LAYOUT_KEY_PLACE_H_
#define FARLOOK_KV_LAYOUT_KEY_PLACE_H_

#include <cstdint>

namespace farlook::kv {

// Constructed from a hash. Table::PrefetchBucket() adds the hint before the lock is taken. Under the lock, the table
// uses the hint only if it still holds, so that a call does not search for the bucket twice.
struct KeyPlace {
  uint64_t hash = 0;
  uint64_t turn = 0;       // of the index when it led to the bucket; 0: there is no hint
  char* bucket = nullptr;  // the key's main bucket at that turn
  char* slot = nullptr;    // one of its slots, which had the fingerprint; null: none had it, or none was searched
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_KEY_PLACE_H_
