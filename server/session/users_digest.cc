#include "server/session/users_digest.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kv/wire/proof.h"

namespace farlook::server {

kv::Mac UsersDigest(const UserList* users, uint64_t group, uint64_t joiner, bool on_one_host) {
  if (users == nullptr) return {};
  std::vector<User> sorted = users->all();
  std::sort(sorted.begin(), sorted.end(), [](const User& a, const User& b) { return a.name < b.name; });
  std::vector<std::string> parts = {"Farlook users"};
  for (User& user : sorted) {
    parts.push_back(user.name);
    parts.push_back(absl::StrCat(user.may_write ? "write" : "", user.admin ? " admin" : ""));
    parts.push_back(std::move(user.secret));
    if (!on_one_host) continue;
    std::sort(user.uids.begin(), user.uids.end());
    std::sort(user.gids.begin(), user.gids.end());
    parts.push_back(absl::StrCat(absl::StrJoin(user.uids, ","), " ", absl::StrJoin(user.gids, ",")));
  }
  return kv::KeyedDigest(absl::StrCat(absl::Hex(group), " ", absl::Hex(joiner)), parts);
}

}  // namespace farlook::server
