// The options of a request: fields (fields.h) that are present only if used, so that an ordinary request stays short.
//
//     tag 1 ttl, critical          u64 microseconds, or 0: never
//     tag 2 keep_ttl, critical     no value
//     tag 3 item flags             u8
//     tag 4 refill                 no value: the put follows a miss of the key
//     tag 5 create, critical       i64: an add creates an absent counter with this value
//
// A server that does not know a critical option must not execute the request; the others are only advice. Each option
// is padded to a multiple of 8 bytes, as the length of all options must be. Create is encoded first: a server of an
// earlier release stops at it. Example, a ttl of 1 s:
//
//     01 80 08 00 40 42 0f 00  00 00 00 00 00 00 00 00
#ifndef FARLOOK_KV_WIRE_REQUEST_OPTIONS_H_
#define FARLOOK_KV_WIRE_REQUEST_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::kv {

// Limits of an item's time to live.
inline constexpr uint64_t kMinTtlUs = 1'000;
inline constexpr uint64_t kMaxTtlUs = uint64_t{10} * 366 * 24 * 3600 * 1'000'000;  // ten years
constexpr bool ValidTtl(uint64_t ttl_us) { return ttl_us >= kMinTtlUs && ttl_us <= kMaxTtlUs; }

struct RequestOptions {
  enum Tag : uint16_t { kTtl = 1, kKeepTtl = 2, kItemFlags = 3, kRefill = 4, kCreate = 5 };
  enum ItemFlags : uint8_t { kKeep = 1 };  // as in an item: it is never evicted
  static constexpr size_t kMaxBytes = 32;  // length of Encode()'s result for one request: only an add has `create`

  uint64_t ttl_us = 0;    // if has_ttl; 0: the item never expires
  bool has_ttl = false;   // otherwise an item that is put never expires
  bool keep_ttl = false;  // of a put: the item keeps its expiry
  uint8_t item_flags = 0;
  bool refill = false;
  bool create = false;  // of an add: an absent counter is first created with `initial`
  int64_t initial = 0;

  bool empty() const { return !has_ttl && !keep_ttl && item_flags == 0 && !refill && !create; }
  // `to` has room for kMaxBytes. Returns the length, a multiple of 8.
  size_t Encode(char* to) const;
  // INVALID_ARGUMENT: malformed, or a ttl that no item can have. FAILED_PRECONDITION: contains an unknown critical
  // option.
  static absl::Status Decode(absl::string_view bytes, RequestOptions* options);
};

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_REQUEST_OPTIONS_H_
