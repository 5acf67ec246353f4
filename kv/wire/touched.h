// A cache client's report of its gets, which the server does not see: the locations of one hit in N, and the number of
// gets. It is the value of a Request of type kTouched, which has no number and no reply.
//
//      0 gets u32 | 4 hits u32, since the last report | 8 sample u32: one hit in this many is included | 12 zero u32
//     16 slots u64, at most kMaxSlots
//
// The server's notice that it wants another sample from now on:
//
//      0 type u8, 0x81 | 1 zero u8 | 2 zero u16 | 4 sample u32, not 0
#ifndef FARLOOK_KV_WIRE_TOUCHED_H_
#define FARLOOK_KV_WIRE_TOUCHED_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kv/layout/slot.h"
#include "kv/layout/words.h"

namespace farlook::kv {

struct TouchedLocations {
  static constexpr size_t kHeadBytes = 16;
  static constexpr size_t kMaxSlots = 500;
  static constexpr size_t kMaxBytes = kHeadBytes + kMaxSlots * 8;

  uint32_t gets = 0, hits = 0;
  uint32_t sample = 0;
  absl::string_view slots;  // 8 bytes each

  size_t size() const { return slots.size() / 8; }
  Slot slot(size_t i) const { return Slot(LoadAs<uint64_t>(slots.data() + 8 * i)); }

  // Encodes the bytes before the slots. `to` has room for kHeadBytes.
  void EncodeHead(char* to) const {
    StoreAs(to, uint64_t{gets} | uint64_t{hits} << 32);
    StoreAs(to + 8, uint64_t{sample});
  }
  // Decodes untrusted bytes, to which the result points. Returns false if malformed. The slots themselves are not
  // verified.
  static bool Decode(absl::string_view value, TouchedLocations* touched) {
    if (value.size() < kHeadBytes || value.size() > kMaxBytes || value.size() % 8 != 0) return false;
    touched->gets = LoadAs<uint32_t>(value.data());
    touched->hits = LoadAs<uint32_t>(value.data() + 4);
    touched->sample = LoadAs<uint32_t>(value.data() + 8);
    touched->slots = value.substr(kHeadBytes);
    return touched->hits <= touched->gets && touched->sample != 0 && LoadAs<uint32_t>(value.data() + 12) == 0;
  }
};

class SampleNotice {
 public:
  static constexpr size_t kBytes = 8;

  // Returns whether a message of the server is such a notice.
  static bool Is(absl::string_view message) { return !message.empty() && static_cast<uint8_t>(message[0]) == kType; }
  static std::array<char, kBytes> Encode(uint32_t sample) {
    std::array<char, kBytes> bytes;
    StoreAs(bytes.data(), uint64_t{kType} | uint64_t{sample} << 32);
    return bytes;
  }
  // Decodes untrusted bytes. Returns 0 if malformed.
  static uint32_t Decode(absl::string_view bytes) {
    if (bytes.size() != kBytes || (LoadAs<uint32_t>(bytes.data()) & ~uint32_t{0xff}) != 0) return 0;
    return LoadAs<uint32_t>(bytes.data() + 4);
  }

 private:
  static constexpr uint8_t kType = 0x81;
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_TOUCHED_H_
