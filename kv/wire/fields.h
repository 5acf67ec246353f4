// Fields: they extend a message without a new version. A sequence of
//
//      0 tag u16 | 2 length u16 | 4 value | zeros up to the next multiple of 4
//
// If bit 15 of a tag is set, a receiver that does not know the field must refuse the message; otherwise it ignores the
// field. If a value is longer than the receiver knows, the known part is used. Tag 0 is no field but padding (four zero
// bytes), for blocks whose length must be a multiple of 8.
//
// Example, tag 3 with a value of five bytes: 03 00 05 00  68 65 6c 6c 6f 00 00 00
#ifndef FARLOOK_KV_WIRE_FIELDS_H_
#define FARLOOK_KV_WIRE_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::kv {

inline constexpr uint16_t kCriticalTag = 0x8000;
inline constexpr size_t kFieldHeadBytes = 4;

// The receiver's result for one field.
enum class FieldUse : uint8_t {
  kTaken,
  kUnknown,
  kMalformed,  // too short, or impossible
};

// Calls `take` for every field of untrusted bytes, with its tag without the critical bit. INVALID_ARGUMENT: a field
// that extends beyond the end, occurs twice, or is malformed according to `take`. FAILED_PRECONDITION: a critical field
// that `take` does not know. `what` names the message in the reason.
absl::Status ReadFields(absl::string_view what, absl::string_view bytes,
                        absl::FunctionRef<FieldUse(uint16_t tag, absl::string_view value)> take);

// REQUIRES value.size() <= 65,535, tag != 0.
void AppendField(uint16_t tag, absl::string_view value, std::string* bytes);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_FIELDS_H_
