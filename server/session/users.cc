#include "server/session/users.h"

#include <algorithm>

namespace farlook::server {

const User* UserList::Named(absl::string_view name) const {
  const auto found = std::find_if(users_.begin(), users_.end(), [name](const User& user) { return user.name == name; });
  return found != users_.end() ? &*found : nullptr;
}

const User* UserList::Of(const rdma::PeerCredentials& process) const {
  const auto has = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (const User& user : users_) {
    if (has(user.uids, process.uid)) return &user;
  }
  for (const User& user : users_) {
    if (std::any_of(process.gids.begin(), process.gids.end(), [&](uint32_t gid) { return has(user.gids, gid); })) {
      return &user;
    }
  }
  return nullptr;
}

}  // namespace farlook::server
