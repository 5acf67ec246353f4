// Opens a server's group, from its flags, its users and the group's record.
#ifndef FARLOOK_SERVER_DAEMON_OPEN_GROUP_H_
#define FARLOOK_SERVER_DAEMON_OPEN_GROUP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/daemon/server_options.h"
#include "server/daemon/stat_text.h"
#include "server/group/group.h"
#include "server/group/process_lock.h"
#include "server/session/users.h"

namespace farlook::server {

struct OpenedGroup {
  std::unique_ptr<Group> group;
  std::unique_ptr<ProcessLock> lock;  // null: no server on this host looks for it
};

// REQUIRES CheckOptions(options).ok(), and that a group is configured. `hash_seed` is used if this server begins the
// group. `users`, null if every user is accepted, must outlive the group. A directory that does not answer is retried
// for ten seconds, then UNAVAILABLE. INVALID_ARGUMENT: --group_user is no user whose identity backups can prove. Other
// errors as Group::Open.
absl::StatusOr<OpenedGroup> OpenGroup(const ServerOptions& options, const ServerFacts& facts, uint64_t hash_seed,
                                      const Users* users);

// Returns what OpenGroup() would find, and changes nothing: true if the group has a record, false if this server would
// begin it. Retries like OpenGroup(), so that a unit that checks first does not fail while etcd starts.
absl::StatusOr<bool> FindGroup(const ServerOptions& options, const Users* users);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_OPEN_GROUP_H_
