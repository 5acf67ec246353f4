// `kv_server --check`: whether a server with these options could start, without starting it.
#ifndef FARLOOK_SERVER_SELF_CHECK_H_
#define FARLOOK_SERVER_SELF_CHECK_H_

#include <string>

#include "server/server.h"

namespace farlook::server {

// Appends a line for each finding to `text`: "good", "advice" or "trouble", and what mends it. True without trouble.
// Looks at devices and limits, and listens at the addresses for a moment.
bool SelfCheck(const ServerOptions& options, std::string* text);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SELF_CHECK_H_
