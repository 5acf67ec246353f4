// Where a key belongs in the table, as a caller knows it: its hash and, where it looked ahead, a hint.
#ifndef FARLOOK_KV_KEY_PLACE_H_
#define FARLOOK_KV_KEY_PLACE_H_

#include <cstdint>

namespace farlook::kv {

// Made of a hash. Table::PrefetchBucket() adds the hint, before the lock is had: under the lock the table uses it only
// where it still holds, so that a call does not seek the bucket a second time.
struct KeyPlace {
  uint64_t hash = 0;
  uint64_t turn = 0;       // of the index when it led to the bucket; 0: there is no hint
  char* bucket = nullptr;  // the key's main bucket at that turn
  char* slot = nullptr;    // one of its slots, that bore the fingerprint; null: none did, or nobody looked
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_KEY_PLACE_H_
