// The file of --users: one user a line, words separated by spaces. Empty lines, and those that begin with #, are
// ignored.
//
//     # NAME   ROLES        how it proves who it is: at least one of these; uid=, user=, gid=, group= may be repeated
//     app      read,write   secret=9f0c…            over rdma:// and tcp://; at least 32 characters, as of openssl rand -hex 32
//     report   read         user=www-data           a process of this host, over shm://: its user by name, or uid=33
//     ops      read,admin   group=adm secret=77aa…  or one of its groups, or gid=4
//
// Roles: read; write, which may read too; admin, which may read, and may do what kv_cli has for operators.
#ifndef FARLOOK_SERVER_USERS_FILE_H_
#define FARLOOK_SERVER_USERS_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/users.h"

namespace farlook::server {

// INVALID_ARGUMENT names the line, and never a secret.
absl::StatusOr<std::shared_ptr<const UserList>> ParseUsers(absl::string_view text);

// The same of a file, which nobody but its owner (root, or this process' user) and their group may read, and nobody but
// its owner may write. A relative name is one in $CREDENTIALS_DIRECTORY, where systemd has set that.
// INVALID_ARGUMENT, also where there is none; PERMISSION_DENIED; the messages say what to do.
absl::StatusOr<std::shared_ptr<const UserList>> ReadUsersFile(const std::string& path);

// A group of this host, by name or number, or -1 for "". INVALID_ARGUMENT: there is none of that name.
absl::StatusOr<int64_t> GroupId(const std::string& group);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_USERS_FILE_H_
