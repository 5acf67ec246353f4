// Decodes arbitrary bytes as an item, in one piece and in two: the results are equal, and the views lie inside.
//
// Input: flags, length of the key, the key, the item. Flag 1: the checksum is corrected, so that decoding gets further.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "kv/layout/item.h"

namespace farlook::kv {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void CheckInside(absl::string_view part, absl::string_view whole) {
  Check(part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void Fuzz(absl::string_view input) {
  static const Hasher hasher(42);
  if (input.size() < 2) return;
  const bool fit_checksum = input[0] & 1;
  const size_t key_bytes = std::min<size_t>(static_cast<uint8_t>(input[1]), input.size() - 2);
  const std::string key(input.substr(2, key_bytes));
  std::string bytes(input.substr(2 + key_bytes));
  if (fit_checksum && bytes.size() >= kItemHeaderBytes) {
    const ItemLengths lengths = ItemLengths::From(LoadAs<uint64_t>(bytes.data() + kLengthsOffset));
    const uint64_t item_bytes = std::min<uint64_t>(ItemBytes(lengths.key_bytes, lengths.value_bytes), bytes.size());
    StoreAs(bytes.data(), ItemChecksum(hasher, bytes.data(), item_bytes));
  }

  ItemView item;
  const ItemCheck check = CheckItem(hasher, bytes, key, &item);
  if (check == ItemCheck::kValid || check == ItemCheck::kOtherKey) {
    CheckInside(item.key, bytes);
    CheckInside(item.value, bytes);
    Check((item.version & kDeadBit) == 0);
    Check((check == ItemCheck::kValid) == (item.key == key));
    Check(item.key.size() >= kMinKeyBytes && item.key.size() <= kMaxKeyBytes);
  }

  if (bytes.size() >= kItemHeaderBytes && key.size() >= kMinKeyBytes) {
    uint64_t version = 0;
    absl::string_view value;
    const bool plain = check == ItemCheck::kValid && item.kind == ItemKind::kValue && item.expiry_ms == 0;
    Check(IsPlainItem(hasher, bytes.data(), bytes.size(), key, &version, &value) == plain);
    if (plain) Check(version == item.version && value.data() == item.value.data() && value.size() == item.value.size());
  }

  const size_t head_bytes = ValueOffset(key.size());
  if (bytes.size() < head_bytes) return;
  // Exactly these sizes, and in separate memory.
  const std::string head = bytes.substr(0, head_bytes), rest = bytes.substr(head_bytes);
  ItemView split;
  Check(CheckSplitItem(hasher, head, rest, key, &split) == check);
  if (check == ItemCheck::kValid || check == ItemCheck::kOtherKey) {
    Check(split.version == item.version && split.flags == item.flags);
  }
  if (check == ItemCheck::kValid) Check(split.key == item.key && split.value == item.value);
}

}  // namespace
}  // namespace farlook::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farlook::kv::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
