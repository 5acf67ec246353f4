// What a server logs of itself when it starts.
#ifndef FARLOOK_SERVER_START_LOG_H_
#define FARLOOK_SERVER_START_LOG_H_

#include <cstdint>

#include "server/stat_text.h"

namespace farlook::server {

// Memory, counters, addresses, and what could be better.
void LogStart(const ServerFacts& facts);

// The line that scripts wait for.
void LogReady(const ServerFacts& facts, int64_t start_ns);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_START_LOG_H_
