#include "kv/item.h"

namespace farlook::kv {
namespace {

// What stands in the header, where it may be believed as far as lengths go.
struct Header {
  uint64_t checksum, expiry, version;
  ItemLengths lengths;
  explicit Header(const char* at)
      : checksum(LoadAs<uint64_t>(at + kChecksumOffset)),
        expiry(LoadAs<uint64_t>(at + kExpiryOffset)),
        version(LoadAs<uint64_t>(at + kVersionOffset)),
        lengths(ItemLengths::From(LoadAs<uint64_t>(at + kLengthsOffset))) {}
  bool LengthsFit(uint64_t size) const {
    return lengths.key_bytes >= kMinKeyBytes && lengths.key_bytes <= kMaxKeyBytes &&
           ItemBytes(lengths.key_bytes, lengths.value_bytes) <= size;
  }
  bool TagFits() const { return expiry == NeverExpires(version) || ExpiryFits(version, expiry); }
  void Describe(ItemView* item) const {
    item->version = version;
    item->expiry_ms = ExpiryTimeMs(expiry);
    item->kind = lengths.kind;
    item->flags = lengths.flags;
  }
};

}  // namespace

ItemCheck CheckItem(const Hasher& hasher, absl::string_view bytes, absl::string_view key, ItemView* item) {
  if (bytes.size() < kItemHeaderBytes) return ItemCheck::kTorn;
  const Header header(bytes.data());
  if (header.version & kDeadBit) return ItemCheck::kDead;
  if (!header.LengthsFit(bytes.size())) return ItemCheck::kTorn;
  const ItemLengths lengths = header.lengths;
  if (ItemChecksum(hasher, bytes.data(), ItemBytes(lengths.key_bytes, lengths.value_bytes)) != header.checksum) {
    return ItemCheck::kTorn;
  }
  if (!header.TagFits()) return ItemCheck::kTorn;
  header.Describe(item);
  item->key = absl::string_view(bytes.data() + kItemHeaderBytes, lengths.key_bytes);
  item->value = absl::string_view(bytes.data() + ValueOffset(lengths.key_bytes), lengths.value_bytes);
  return item->key == key ? ItemCheck::kValid : ItemCheck::kOtherKey;
}

ItemCheck CheckSplitItem(const Hasher& hasher, absl::string_view head, absl::string_view rest, absl::string_view key,
                         ItemView* item) {
  if (head.size() != ValueOffset(key.size())) return ItemCheck::kTorn;
  const Header header(head.data());
  if (header.version & kDeadBit) return ItemCheck::kDead;
  if (!header.LengthsFit(head.size() + rest.size())) return ItemCheck::kTorn;
  const uint64_t bytes = ItemBytes(header.lengths.key_bytes, header.lengths.value_bytes);
  // An item of another key may be shorter than the head of ours.
  const uint64_t in_head = bytes < head.size() ? bytes : head.size();
  if (hasher(head.substr(kVersionOffset, in_head - kVersionOffset), rest.substr(0, bytes - in_head)) !=
      header.checksum) {
    return ItemCheck::kTorn;
  }
  if (!header.TagFits()) return ItemCheck::kTorn;
  header.Describe(item);
  if (header.lengths.key_bytes != key.size() || head.substr(kItemHeaderBytes, key.size()) != key) {
    return ItemCheck::kOtherKey;
  }
  item->key = head.substr(kItemHeaderBytes, key.size());
  item->value = rest.substr(0, header.lengths.value_bytes);
  return ItemCheck::kValid;
}

}  // namespace farlook::kv
