// The effect of a request on a counter of a group, which is a number in its item (commit_gate.h). A pure function of
// the two, so that the result can be written to a record. Its answers are those of Counters.
#ifndef FARLOOK_SERVER_COUNTERS_COUNTER_CHANGE_H_
#define FARLOOK_SERVER_COUNTERS_COUNTER_CHANGE_H_

#include <cstdint>
#include <optional>

#include "kv/wire/message.h"
#include "server/session/session.h"

namespace farlook::server {

struct CounterChange {
  Outcome outcome;
  std::optional<int64_t> next = {};  // new number of the counter; none: unchanged
  bool deletes = false;
};

// `present`: the counter's number, if it exists. REQUIRES IsCounterRequest.
CounterChange ChangeOf(const kv::Request& request, std::optional<int64_t> present);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTERS_COUNTER_CHANGE_H_
