// What an operation's user is told: each status says what happened, and what to do about it where anything helps.
#ifndef FARLOOK_CLIENT_STATUS_H_
#define FARLOOK_CLIENT_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kv/message.h"

namespace farlook::client {

// Of a key that a get did not find. A client makes this status once and copies it: a miss allocates nothing.
inline constexpr absl::string_view kAbsent = "the key is absent: it was never written, or it was deleted";

// For the server's answer to a request about a value.
absl::Status StatusOf(kv::Code code);
// For one about a counter, but for kOutOfRange, which the counter's value decides.
absl::Status CounterStatusOf(kv::Code code);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_STATUS_H_
