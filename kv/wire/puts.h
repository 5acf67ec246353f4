// Several puts in one message: used by a batch of small values.
//
// A Request of type kPuts stands for several requests of type kPut, each with its condition, version, deadline and
// options: the first has its number, each other the next one. Its value holds for each of them, one directly after the
// other:
//
//      0 key bytes u16 | 2 value bytes u16 | 4 key | value
//
// Each is answered with a Reply with its own number; replies that are ready at once are sent in packs (gets.h).
#ifndef FARLOOK_KV_WIRE_PUTS_H_
#define FARLOOK_KV_WIRE_PUTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "kv/layout/limits.h"
#include "kv/layout/words.h"
#include "kv/wire/message.h"

namespace farlook::kv {

// In one message. Other requests wait while a worker executes it.
inline constexpr size_t kMaxPuts = 16;

// Untrusted puts of a kPuts.
struct Puts {
  static constexpr size_t kHeadBytes = 4;
  size_t size = 0;
  std::array<KeyValue, kMaxPuts> all;  // the first `size` are valid; they point into the message

  // Returns false if malformed.
  static bool Decode(absl::string_view value, Puts* to) {
    for (to->size = 0; !value.empty(); ++to->size) {
      if (to->size == kMaxPuts || value.size() < kHeadBytes) return false;
      const size_t key_bytes = LoadAs<uint16_t>(value.data());
      const size_t value_bytes = LoadAs<uint16_t>(value.data() + 2);
      const size_t end = kHeadBytes + key_bytes + value_bytes;
      if (key_bytes < kMinKeyBytes || key_bytes > kMaxKeyBytes || value.size() < end) return false;
      to->all[to->size] = {{value.data() + kHeadBytes, key_bytes},
                           {value.data() + kHeadBytes + key_bytes, value_bytes}};
      value.remove_prefix(end);
    }
    return to->size > 0;
  }
};

// Writes the value of a kPuts whose options take `option_bytes`.
class PutsWriter {
 public:
  explicit PutsWriter(size_t option_bytes) : room_(sizeof bytes_ - option_bytes) {}

  // Returns false, and adds nothing, if the message has no room for it. REQUIRES fewer than kMaxPuts were added.
  bool Add(absl::string_view key, absl::string_view value) {
    if (room_ - size_ < Puts::kHeadBytes + key.size() || room_ - size_ - Puts::kHeadBytes - key.size() < value.size()) {
      return false;
    }
    char* const to = bytes_ + size_;
    StoreAs(to, static_cast<uint16_t>(key.size()));
    StoreAs(to + 2, static_cast<uint16_t>(value.size()));
    std::memcpy(to + Puts::kHeadBytes, key.data(), key.size());
    if (!value.empty()) std::memcpy(to + Puts::kHeadBytes + key.size(), value.data(), value.size());
    size_ += Puts::kHeadBytes + key.size() + value.size();
    return true;
  }
  absl::string_view value() const { return {bytes_, size_}; }

 private:
  char bytes_[kMaxMessageBytes - Request::kHeaderBytes];
  const size_t room_;
  size_t size_ = 0;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_PUTS_H_
