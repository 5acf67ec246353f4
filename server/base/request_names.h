// Names of request types, in figures and in the log.
#ifndef FARLOOK_SERVER_BASE_REQUEST_NAMES_H_
#define FARLOOK_SERVER_BASE_REQUEST_NAMES_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "kv/wire/message.h"

namespace farlook::server {

// Returns "put" and so on; "" for 0, which is no type.
inline absl::string_view TypeName(kv::RequestType type) {
  static constexpr absl::string_view kNames[kv::kRequestTypes] = {"",
                                                                  "put",
                                                                  "put_pulled",
                                                                  "delete",
                                                                  "get",
                                                                  "ping",
                                                                  "stat",
                                                                  "counter_create",
                                                                  "counter_add",
                                                                  "counter_swap",
                                                                  "counter_read",
                                                                  "counter_delete",
                                                                  "cells_dropped",
                                                                  "goodbye",
                                                                  "touched",
                                                                  "touch",
                                                                  "get_and_touch",
                                                                  "ttl",
                                                                  "figures",
                                                                  "admin",
                                                                  "gets",
                                                                  "puts"};
  const size_t i = static_cast<size_t>(type);
  return i < kv::kRequestTypes ? kNames[i] : "unknown";
}

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_REQUEST_NAMES_H_
