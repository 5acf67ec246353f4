// How many file descriptors a server needs for its clients, and may have.
#ifndef FARLOOK_SERVER_DESCRIPTORS_H_
#define FARLOOK_SERVER_DESCRIPTORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/server_options.h"

namespace farlook::server {

// With --max_clients of them: each has a socket on shm://, two on tcp://, and none on rdma://.
uint64_t DescriptorsNeeded(const ServerOptions& options);

// Raises this process's soft limit, as far as the hard one lets it, to what such a server needs, and one more for each
// that may be kicked within an atomic.
// RESOURCE_EXHAUSTED: that is not enough for --max_clients; the message says for how many it is, and what helps.
absl::Status RaiseDescriptorLimit(const ServerOptions& options);
// The same, without raising it.
absl::Status CheckDescriptorLimit(const ServerOptions& options);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DESCRIPTORS_H_
