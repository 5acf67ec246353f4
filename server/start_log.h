// What a server logs of itself when it starts.
#ifndef FARLOOK_SERVER_START_LOG_H_
#define FARLOOK_SERVER_START_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/stat_text.h"
#include "server/users.h"

namespace farlook::server {

// Memory, counters, addresses, and what could be better.
void LogStart(const ServerFacts& facts);

// Who can connect at each address, and a warning where that is whoever can reach it. `users` null: there are none.
void LogWhoMayCome(const std::vector<std::string>& addresses, const UserList* users);

// The line that scripts wait for.
void LogReady(const ServerFacts& facts, int64_t start_ns);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_START_LOG_H_
