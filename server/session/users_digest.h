// A digest by which two members of a group compare their --users, so that a failover does not lock clients out.
#ifndef FARLOOK_SERVER_SESSION_USERS_DIGEST_H_
#define FARLOOK_SERVER_SESSION_USERS_DIGEST_H_

#include <cstdint>

#include "kv/wire/handshake.h"
#include "server/session/users.h"

namespace farlook::server {

// Two servers of a group have the same digest if their users have the same names, roles and secrets; in any order. On
// one host also the same uids and gids: on another host a user may have other numbers. It is keyed with the group's id,
// which clients do not learn, and with the incarnation of the server that joins. Null: no users, zeros.
kv::Mac UsersDigest(const UserList* users, uint64_t group, uint64_t joiner, bool on_one_host);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_USERS_DIGEST_H_
