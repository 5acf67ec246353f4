#include "server/session/users_digest.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/session/users_file.h"

namespace farlook::server {
namespace {

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

kv::Mac Digest(const std::string& text, uint64_t group = 1, uint64_t joiner = 2, bool on_one_host = false) {
  const auto users = ParseUsers(text);
  EXPECT_TRUE(users.ok()) << users.status();
  return users.ok() ? UsersDigest(users->get(), group, joiner, on_one_host) : kv::Mac();
}

TEST(UsersDigest, IsOfTheUsersAndTheirRights) {
  const std::string app = absl::StrCat("app read,write secret=", kSecret, "\n");
  const std::string ops = absl::StrCat("ops read,admin uid=7 secret=", kSecret, "1\n");
  const kv::Mac digest = Digest(app + ops);
  EXPECT_NE(digest, kv::Mac());
  EXPECT_EQ(digest, Digest("# a comment\n" + ops + "\n" + app)) << "in any order";
  EXPECT_NE(digest, Digest(app));
  EXPECT_NE(digest, Digest(absl::StrCat("app read secret=", kSecret, "\n") + ops));
  EXPECT_NE(digest, Digest(absl::StrCat("app read,write,admin secret=", kSecret, "\n") + ops));
  EXPECT_NE(digest, Digest(absl::StrCat("apq read,write secret=", kSecret, "\n") + ops));
  EXPECT_NE(digest, Digest(absl::StrCat("app read,write secret=", kSecret, "2\n") + ops));
  EXPECT_NE(digest, Digest(app + ops, 2));
  EXPECT_NE(digest, Digest(app + ops, 1, 3));
}

TEST(UsersDigest, NumbersOfUsersCountOnOneHostOnly) {
  const std::string before = "app read uid=7 uid=8 gid=9\n", after = "app read uid=7 gid=9\n";
  EXPECT_EQ(Digest(before), Digest(after));
  EXPECT_NE(Digest(before, 1, 2, true), Digest(after, 1, 2, true));
  EXPECT_EQ(Digest(before, 1, 2, true), Digest("app read uid=8 uid=7 gid=9\n", 1, 2, true));
}

TEST(UsersDigest, WithoutUsersItIsZeros) { EXPECT_EQ(UsersDigest(nullptr, 1, 2, true), kv::Mac()); }

}  // namespace
}  // namespace farlook::server
