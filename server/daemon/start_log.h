// Log lines that a server writes about itself when it starts.
#ifndef FARLOOK_SERVER_DAEMON_START_LOG_H_
#define FARLOOK_SERVER_DAEMON_START_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/daemon/stat_text.h"
#include "server/session/users.h"

namespace farlook::server {

// Logs memory, counters, addresses, and possible improvements.
void LogStart(const ServerFacts& facts);

// Logs which clients can connect at each address, and a warning where every client that can reach it is accepted.
// `users` null: no users are configured.
void LogAccess(const std::vector<std::string>& addresses, const UserList* users);

// Logs the line that scripts wait for.
void LogReady(const ServerFacts& facts, int64_t start_ns);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_START_LOG_H_
