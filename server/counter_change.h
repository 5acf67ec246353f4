// What a request does to a counter of a group, which is a number in its item (commit_gate.h): a pure function of the
// two, so that whoever carries it out can say it in a record. Its answers are those of Counters.
#ifndef FARLOOK_SERVER_COUNTER_CHANGE_H_
#define FARLOOK_SERVER_COUNTER_CHANGE_H_

#include <cstdint>
#include <optional>

#include "kv/message.h"
#include "server/session.h"

namespace farlook::server {

struct CounterChange {
  Outcome outcome;
  std::optional<int64_t> next = {};  // what the counter holds from now on; none: what it did
  bool deletes = false;
};

// `present`: what the counter holds, if there is one. REQUIRES IsCounterRequest.
CounterChange ChangeOf(const kv::Request& request, std::optional<int64_t> present);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTER_CHANGE_H_
