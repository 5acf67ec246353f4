// Fields: how a message grows without a new version. A sequence of
//
//      0 tag u16 | 2 length u16 | 4 value | zeros up to the next multiple of 4
//
// Bit 15 of a tag says that who does not know the field must refuse the message; else it ignores the field. A value
// that is longer than what is known of it is read as far as it is known. Tag 0 is no field: it fills up (four zero
// bytes), for blocks whose length must be a multiple of 8.
//
// Example, tag 3 with a value of five bytes: 03 00 05 00  68 65 6c 6c 6f 00 00 00
#ifndef FARLOOK_KV_FIELDS_H_
#define FARLOOK_KV_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::kv {

inline constexpr uint16_t kCriticalTag = 0x8000;
inline constexpr size_t kFieldHeadBytes = 4;

// What a reader makes of one field.
enum class FieldUse : uint8_t {
  kTaken,
  kUnknown,
  kMalformed,  // too short, or impossible
};

// Hands every field of untrusted bytes to `take`, by its tag without the critical bit. INVALID_ARGUMENT: a field that
// reaches beyond the end, is there twice, or that `take` calls malformed. FAILED_PRECONDITION: a critical field that
// `take` does not know. `what` names the message, for the reason.
absl::Status ReadFields(absl::string_view what, absl::string_view bytes,
                        absl::FunctionRef<FieldUse(uint16_t tag, absl::string_view value)> take);

// REQUIRES value.size() <= 65,535, tag != 0.
void AppendField(uint16_t tag, absl::string_view value, std::string* bytes);

}  // namespace farlook::kv

#endif  // FARLOOK_KV_FIELDS_H_
