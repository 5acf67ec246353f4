// The file of --users: one user a line, words separated by spaces. Empty lines, and those that begin with #, are
// ignored.
//
//     # NAME   ROLES        proof of identity: at least one of these; uid=, user=, gid=, group= may be repeated
//     app      read,write   secret=9f0c…            over rdma:// and tcp://; at least 32 characters, see openssl rand -hex 32
//     report   read         user=www-data           a process of this host, over shm://: its user by name, or uid=33
//     ops      read,admin   group=adm secret=77aa…  or one of its groups, or gid=4
//
// Roles: read; write, which includes read; admin, which may read and use the operator commands of kv_cli.
#ifndef FARLOOK_SERVER_SESSION_USERS_FILE_H_
#define FARLOOK_SERVER_SESSION_USERS_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/session/users.h"

namespace farlook::server {

// Parses the file's text. INVALID_ARGUMENT names the line, and never a secret.
absl::StatusOr<std::shared_ptr<const UserList>> ParseUsers(absl::string_view text);

// Reads and parses a file. Only its owner (root, or this process' user) and their group may be able to read it, and
// only its owner may be able to write it. A relative name is looked up in $CREDENTIALS_DIRECTORY if systemd has set it.
// INVALID_ARGUMENT, also for a missing file; PERMISSION_DENIED; the messages say what to do.
absl::StatusOr<std::shared_ptr<const UserList>> ReadUsersFile(const std::string& path);

// Returns a group of this host, by name or number, or -1 for "". INVALID_ARGUMENT: no group has that name.
absl::StatusOr<int64_t> GroupId(const std::string& group);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_USERS_FILE_H_
