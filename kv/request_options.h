// The options of a request: fields (fields.h) that it bears only where they are used, so that an ordinary one stays as
// short as it was.
//
//     tag 1 ttl, critical          u64 microseconds, or 0: never
//     tag 2 keep_ttl, critical     no value
//     tag 3 item flags             u8
//     tag 4 refill                 no value: the key was missed, and is put since
//
// Who does not know the first two must not execute the request; the others only advise. Each stands alone in a multiple
// of 8 bytes, as all options together must. Example, a ttl of 1 s:
//
//     01 80 08 00 40 42 0f 00  00 00 00 00 00 00 00 00
#ifndef FARLOOK_KV_REQUEST_OPTIONS_H_
#define FARLOOK_KV_REQUEST_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::kv {

// How long an item may be told to live.
inline constexpr uint64_t kMinTtlUs = 1'000;
inline constexpr uint64_t kMaxTtlUs = uint64_t{10} * 366 * 24 * 3600 * 1'000'000;  // ten years
constexpr bool ValidTtl(uint64_t ttl_us) { return ttl_us >= kMinTtlUs && ttl_us <= kMaxTtlUs; }

struct RequestOptions {
  enum Tag : uint16_t { kTtl = 1, kKeepTtl = 2, kItemFlags = 3, kRefill = 4 };
  enum ItemFlags : uint8_t { kKeep = 1 };  // as in an item: it is never evicted
  static constexpr size_t kMaxBytes = 32;  // of what Encode() writes

  uint64_t ttl_us = 0;    // where has_ttl; 0: the item never expires
  bool has_ttl = false;   // else an item that is put never expires
  bool keep_ttl = false;  // of a put: the item's expiry stays
  uint8_t item_flags = 0;
  bool refill = false;

  bool empty() const { return !has_ttl && !keep_ttl && item_flags == 0 && !refill; }
  // `to` has room for kMaxBytes. Returns how many bytes it took, a multiple of 8.
  size_t Encode(char* to) const;
  // INVALID_ARGUMENT: malformed, or a ttl that no item can have. FAILED_PRECONDITION: asks for what is not known.
  static absl::Status Decode(absl::string_view bytes, RequestOptions* options);
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_REQUEST_OPTIONS_H_
