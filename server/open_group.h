// How a server comes to its group: by its flags, its users and the group's record.
#ifndef FARLOOK_SERVER_OPEN_GROUP_H_
#define FARLOOK_SERVER_OPEN_GROUP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/group.h"
#include "server/process_lock.h"
#include "server/server_options.h"
#include "server/stat_text.h"
#include "server/users.h"

namespace farlook::server {

struct OpenedGroup {
  std::unique_ptr<Group> group;
  std::unique_ptr<ProcessLock> lock;  // null: nobody on this host looks for it
};

// REQUIRES CheckOptions(options).ok(), and that there is a group. `hash_seed`: of a group that this server begins.
// `users`, null where everybody may come, outlive the group. A directory that does not answer is asked for ten seconds:
// then UNAVAILABLE. INVALID_ARGUMENT: --group_user is none by whom backups can prove who they are; else as Group::Open.
absl::StatusOr<OpenedGroup> OpenGroup(const ServerOptions& options, const ServerFacts& facts, uint64_t hash_seed,
                                      const Users* users);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_OPEN_GROUP_H_
