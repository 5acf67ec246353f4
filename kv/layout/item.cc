#include "kv/layout/item.h"

#include <cstddef>
#include <cstring>

namespace farlook::kv {
namespace {

// The header of an item in private memory. Each word is loaded where it is needed, so that few registers are live
// across the hashing.
struct Header {
  const char* at;

  uint64_t checksum() const { return LoadAs<uint64_t>(at + kChecksumOffset); }
  uint64_t version() const { return LoadAs<uint64_t>(at + kVersionOffset); }
  ItemLengths lengths() const { return ItemLengths::From(LoadAs<uint64_t>(at + kLengthsOffset)); }

  // Fills in the fields other than key and value. Returns false if the tag does not match. REQUIRES the item is alive.
  bool Describe(ItemView* item) const {
    const uint64_t expiry = LoadAs<uint64_t>(at + kExpiryOffset);
    item->version = version();
    std::memcpy(&item->kind, at + kLengthsOffset + 2, 2);
    item->expiry_ms = 0;
    if (IsNeverFor(item->version, expiry)) [[likely]]
      return true;
    item->expiry_ms = ExpiryTimeMs(expiry);
    return ExpiryFits(item->version, expiry);
  }
};
static_assert(offsetof(ItemView, flags) == offsetof(ItemView, kind) + 1, "copied at once");

bool LengthsFit(ItemLengths lengths, uint64_t size) {
  return lengths.key_bytes >= kMinKeyBytes && lengths.key_bytes <= kMaxKeyBytes &&
         ItemBytes(lengths.key_bytes, lengths.value_bytes) <= size;
}

}  // namespace

ItemCheck CheckItem(const Hasher& hasher, absl::string_view bytes, absl::string_view key, ItemView* item) {
  if (bytes.size() < kItemHeaderBytes) return ItemCheck::kTorn;
  const Header header{bytes.data()};
  if (header.version() & kDeadBit) return ItemCheck::kDead;
  const ItemLengths lengths = header.lengths();
  if (!LengthsFit(lengths, bytes.size())) return ItemCheck::kTorn;
  if (ItemChecksum(hasher, bytes.data(), ItemBytes(lengths.key_bytes, lengths.value_bytes)) != header.checksum()) {
    return ItemCheck::kTorn;
  }
  if (!header.Describe(item)) return ItemCheck::kTorn;
  item->key = absl::string_view(bytes.data() + kItemHeaderBytes, lengths.key_bytes);
  item->value = absl::string_view(bytes.data() + ValueOffset(lengths.key_bytes), lengths.value_bytes);
  const bool same = SameKey(item->key.data(), item->key.size(), key.data(), key.size());
  return same ? ItemCheck::kValid : ItemCheck::kOtherKey;
}

ItemCheck CheckSplitItem(const Hasher& hasher, absl::string_view head, absl::string_view rest, absl::string_view key,
                         ItemView* item) {
  if (head.size() != ValueOffset(key.size())) return ItemCheck::kTorn;
  const Header header{head.data()};
  if (header.version() & kDeadBit) return ItemCheck::kDead;
  const ItemLengths lengths = header.lengths();
  if (!LengthsFit(lengths, head.size() + rest.size())) return ItemCheck::kTorn;
  const uint64_t bytes = ItemBytes(lengths.key_bytes, lengths.value_bytes);
  // An item of another key may be shorter than the head of ours.
  const uint64_t in_head = bytes < head.size() ? bytes : head.size();
  if (hasher(head.substr(kVersionOffset, in_head - kVersionOffset), rest.substr(0, bytes - in_head)) !=
      header.checksum()) {
    return ItemCheck::kTorn;
  }
  if (!header.Describe(item)) return ItemCheck::kTorn;
  if (lengths.key_bytes != key.size() || head.substr(kItemHeaderBytes, key.size()) != key) {
    return ItemCheck::kOtherKey;
  }
  item->key = head.substr(kItemHeaderBytes, key.size());
  item->value = rest.substr(0, lengths.value_bytes);
  return ItemCheck::kValid;
}

}  // namespace farlook::kv
