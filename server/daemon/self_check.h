// Checks for `kv_server --check`: finds what would stop a server with these options, without starting it.
#ifndef FARLOOK_SERVER_DAEMON_SELF_CHECK_H_
#define FARLOOK_SERVER_DAEMON_SELF_CHECK_H_

#include <string>

#include "server/daemon/server.h"

namespace farlook::server {

// Appends a line for each finding to `text`: "good", "advice" or "trouble", and the remedy. Returns true if there is no
// trouble. Checks devices, limits, the file of users and the group's record, and listens at the addresses for a moment.
bool SelfCheck(const ServerOptions& options, std::string* text);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_SELF_CHECK_H_
