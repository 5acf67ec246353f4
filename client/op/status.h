// Statuses for users: each says what happened and, if possible, what to do.
#ifndef FARLOOK_CLIENT_OP_STATUS_H_
#define FARLOOK_CLIENT_OP_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/wire/message.h"

namespace farlook::client {

// Status of a get whose key is absent. A client makes it once and copies it: a miss allocates nothing.
inline constexpr absl::string_view kAbsent = "the key is absent: it was never written, or it was deleted";

// Returns the status for the server's reply to a request about a value.
absl::Status StatusOf(kv::Code code);
// Returns the status for a put whose value does not fit in the server's memory, which has `region_bytes`.
absl::Status NoRoomFor(uint64_t value_bytes, uint64_t region_bytes);
// Returns the status for a reply about a counter, except kOutOfRange, which depends on the counter's value.
absl::Status CounterStatusOf(kv::Code code);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_STATUS_H_
