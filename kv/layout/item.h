// An item: one key and its value in one contiguous range.
//
//      offset
//       0   checksum    XXH3-64, seeded by the incarnation, of bytes [16, end of value), DEAD bit taken as 0
//       8   expiry      when the key ends (kv/layout/expiry_word.h): not in the checksum, bound to the version by a tag
//      16   version     63: DEAD | 62..48: epoch of a cluster, 0 | 47..0: a number never used twice in an incarnation
//      24   key_bytes   u16, 1 .. 1,024
//      26   kind        u8 (0: value, 1: counter)
//      27   flags       u8, bit 0: keep (never evicted); readers ignore all
//      28   value_bytes u32
//      32   key         padded with zeros to a multiple of 8
//       .   value       8-byte aligned; the item's memory after it has no meaning
//
// While an item is alive, only its expiry and its DEAD bit change. A reader accepts an item if its version is not DEAD,
// its checksum and its tag match and its key is equal; see docs/protocol.md. The words that may change without the
// checksum come first, so that the checksum covers one range.
#ifndef FARLOOK_KV_LAYOUT_ITEM_H_
#define FARLOOK_KV_LAYOUT_ITEM_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "kv/layout/expiry_word.h"
#include "kv/layout/hash.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"

namespace farlook::kv {

inline constexpr uint64_t kDeadBit = 1ull << 63;
inline constexpr uint64_t kChecksumOffset = 0;
inline constexpr uint64_t kExpiryOffset = 8;
inline constexpr uint64_t kVersionOffset = 16;
inline constexpr uint64_t kLengthsOffset = 24;
inline constexpr uint64_t kItemHeaderBytes = 32;

enum class ItemKind : uint8_t { kValue = 0, kCounter = 1 };

// Bits of an item's flags. The other bits are zero.
inline constexpr uint8_t kKeepItem = 1;

// Offset of the value in its item.
constexpr uint64_t ValueOffset(uint64_t key_bytes) { return kItemHeaderBytes + (key_bytes + 7) / 8 * 8; }
// Length of an item.
constexpr uint64_t ItemBytes(uint64_t key_bytes, uint64_t value_bytes) { return ValueOffset(key_bytes) + value_bytes; }

// The word at kLengthsOffset.
struct ItemLengths {
  uint16_t key_bytes;
  ItemKind kind;
  uint8_t flags;
  uint32_t value_bytes;

  constexpr uint64_t word() const {
    return key_bytes | uint64_t{static_cast<uint8_t>(kind)} << 16 | uint64_t{flags} << 24 | uint64_t{value_bytes} << 32;
  }
  static constexpr ItemLengths From(uint64_t word) {
    return {static_cast<uint16_t>(word), static_cast<ItemKind>(word >> 16 & 0xff), static_cast<uint8_t>(word >> 24),
            static_cast<uint32_t>(word >> 32)};
  }
};

// The result of checking bytes that should be an item.
enum class ItemCheck : uint8_t {
  kValid,     // whole, alive, of this key
  kOtherKey,  // whole, alive, of another key
  kDead,      // the version says DEAD
  kTorn,      // lengths, checksum or tag do not match: half written, reused, or never an item
};

// A decoded item; points into the bytes it was decoded from.
struct ItemView {
  uint64_t version = 0;
  uint64_t expiry_ms = 0;  // 0: never
  ItemKind kind = ItemKind::kValue;
  uint8_t flags = 0;
  absl::string_view key;
  absl::string_view value;
};

// Decodes untrusted private memory and compares its key with `key`. `*item` is set for kValid and kOtherKey.
ItemCheck CheckItem(const Hasher& hasher, absl::string_view bytes, absl::string_view key, ItemView* item);

// The same for an item that was read into two buffers: its first ValueOffset(key.size()) bytes in `head`, the others in
// `rest`. So a value can be READ directly to its destination. Sets item->value only for kValid.
ItemCheck CheckSplitItem(const Hasher& hasher, absl::string_view head, absl::string_view rest, absl::string_view key,
                         ItemView* item);

// The checksum of a whole item in private memory. REQUIRES DEAD bit clear.
inline uint64_t ItemChecksum(const Hasher& hasher, const char* item, uint64_t item_bytes) {
  return hasher(item + kVersionOffset, item_bytes - kVersionOffset);
}

// The same for an item that is assembled in memory where its version must be DEAD; `version` is hashed instead of the
// stored word. REQUIRES HasChecksumApart(item_bytes).
inline uint64_t ItemChecksumApart(const Hasher& hasher, uint64_t version, const char* item, uint64_t item_bytes) {
  return hasher(version, item + kVersionOffset, item_bytes - kVersionOffset);
}
constexpr bool HasChecksumApart(uint64_t item_bytes) { return Hasher::TakesFirstWord(item_bytes - kVersionOffset); }

// Returns true if CheckItem() would return kValid for a value that never expires, and sets `*version` and `*value`.
// Takes fewer instructions; returns false where more would be needed. REQUIRES bytes >= kItemHeaderBytes, and `key` has
// a valid length.
inline bool IsPlainItem(const Hasher& hasher, const char* item, uint64_t bytes, absl::string_view key,
                        uint64_t* version, absl::string_view* value) {
  *version = LoadAs<uint64_t>(item + kVersionOffset);
  const uint64_t lengths = LoadAs<uint64_t>(item + kLengthsOffset);
  constexpr uint64_t kKeyBytesAndKind = 0xffffff;
  const uint64_t value_bytes = lengths >> 32;
  const uint64_t value_offset = ValueOffset(key.size());
  if ((*version & kDeadBit) != 0 || (lengths & kKeyBytesAndKind) != key.size() || value_offset + value_bytes > bytes ||
      !IsNeverFor(*version, LoadAs<uint64_t>(item + kExpiryOffset))) {
    return false;
  }
  *value = absl::string_view(item + value_offset, value_bytes);
  return ItemChecksum(hasher, item, value_offset + value_bytes) == LoadAs<uint64_t>(item + kChecksumOffset) &&
         SameKey(item + kItemHeaderBytes, key.size(), key.data(), key.size());
}
static_assert(ItemLengths{5, ItemKind::kValue, kKeepItem, 9}.word() == (9ull << 32 | 1ull << 24 | 5),
              "as it is compared");

}  // namespace farlook::kv

#endif  // FARLOOK_KV_LAYOUT_ITEM_H_
