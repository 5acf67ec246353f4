// The number of file descriptors that a server needs for its clients, and the process' limit.
#ifndef FARLOOK_SERVER_DAEMON_DESCRIPTORS_H_
#define FARLOOK_SERVER_DAEMON_DESCRIPTORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/daemon/server_options.h"

namespace farlook::server {

// Returns the descriptors needed with --max_clients clients: each has a socket on shm://, two on tcp://, none on
// rdma://.
uint64_t DescriptorsNeeded(const ServerOptions& options);

// Raises this process's soft limit, as far as the hard one allows, to what such a server needs. Adds one for each
// client that may be kicked within an atomic. RESOURCE_EXHAUSTED: the limit is too low for --max_clients; the message
// names a number of clients that fits, and the remedy.
absl::Status RaiseDescriptorLimit(const ServerOptions& options);
// The same, without raising the limit.
absl::Status CheckDescriptorLimit(const ServerOptions& options);

// Returns the number of clients that the soft limit has room for, besides the descriptors that this process has now and
// some for handshakes, operators and probes. So these can connect while all client places are taken. INT64_MAX if it
// cannot be determined.
int64_t ClientsWithinDescriptorLimit(const ServerOptions& options);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_DESCRIPTORS_H_
