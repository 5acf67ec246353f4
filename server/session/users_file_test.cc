#include "server/session/users_file.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Replaces the C library's. Group "crowd" has so many members that they need 8 MiB; for group "lost" the directory
// service does not answer.
extern "C" int getgrnam_r(const char* name, group* entry, char* /*buffer*/, size_t bytes, group** found) {
  *found = nullptr;
  const std::string wanted = name;
  if (wanted == "lost") return EIO;
  if (wanted == "crowd" && bytes < 8 << 20) return ERANGE;
  if (wanted != "crowd" && wanted != "root") return 0;
  *entry = {};
  entry->gr_gid = wanted == "crowd" ? 77 : 0;
  *found = entry;
  return 0;
}

namespace farlook::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";

std::string Reason(const std::string& text) {
  const auto users = ParseUsers(text);
  return users.ok() ? "" : std::string(users.status().message());
}

TEST(ParseUsersTest, NamesRolesAndProofs) {
  const auto users = ParseUsers(absl::StrCat("# who may come\n\n  app read,write\tsecret=", kSecret,
                                             "\nreport read uid=33 uid=34 gid=7\r\nops admin user=root group=root"));
  ASSERT_TRUE(users.ok()) << users.status();
  const User* app = (*users)->Named("app");
  ASSERT_NE(app, nullptr);
  EXPECT_TRUE(app->may_write);
  EXPECT_FALSE(app->admin);
  EXPECT_EQ(app->secret, kSecret);
  const User* report = (*users)->Named("report");
  ASSERT_NE(report, nullptr);
  EXPECT_FALSE(report->may_write);
  EXPECT_THAT(report->uids, ElementsAre(33, 34));
  EXPECT_THAT(report->gids, ElementsAre(7));
  const User* ops = (*users)->Named("ops");
  ASSERT_NE(ops, nullptr);
  EXPECT_TRUE(ops->admin);
  EXPECT_FALSE(ops->may_write);
  EXPECT_THAT(ops->uids, ElementsAre(0));
  EXPECT_EQ((*users)->Named("nobody"), nullptr);
}

TEST(ParseUsersTest, AProcessIsWhomItsUidNamesBeforeItsGroups) {
  const auto users = ParseUsers("group read gid=7\nalice read,write uid=1000\nlater read uid=1000");
  ASSERT_TRUE(users.ok());
  EXPECT_EQ((*users)->Of({1, 1000, {7}})->name, "alice");
  EXPECT_EQ((*users)->Of({1, 1001, {100, 7}})->name, "group");
  EXPECT_EQ((*users)->Of({1, 1001, {100}}), nullptr);
  EXPECT_EQ((*users)->Of({1, UINT32_MAX, {}}), nullptr);
}

TEST(ParseUsersTest, AGroupOfManyMembersIsFound) {
  const auto users = ParseUsers("app read group=crowd");
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_THAT((*users)->Named("app")->gids, ElementsAre(77));
  EXPECT_EQ(GroupId("crowd").value(), 77);
  EXPECT_EQ(Reason("app read group=none"), "line 1: this host has no group \"none\"");
  EXPECT_EQ(Reason("app read group=lost"), "line 1: cannot look up group \"lost\": Input/output error");
}

TEST(ParseUsersTest, AByteOrderMarkIsNoPartOfTheFirstName) {
  const auto users = ParseUsers(
      "\xef\xbb\xbf"
      "app read uid=33");
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_NE((*users)->Named("app"), nullptr);
}

TEST(ParseUsersTest, EachWrongLineHasItsReasonAndItsNumber) {
  EXPECT_THAT(Reason("a read uid=1\nb read"), HasSubstr("line 2: a user is a name, roles"));
  EXPECT_THAT(Reason("a/b read uid=1"), HasSubstr("a name has"));
  EXPECT_THAT(Reason(absl::StrCat(std::string(65, 'a'), " read uid=1")), HasSubstr("a name has"));
  EXPECT_THAT(Reason("a reed uid=1"), HasSubstr("\"reed\" is no role"));
  EXPECT_THAT(Reason("a read, uid=1"), HasSubstr("is no role"));
  EXPECT_THAT(Reason("a read uid=-1"), HasSubstr("is no number"));
  EXPECT_THAT(Reason("a read uid=4294967295"), HasSubstr("is no number"));
  EXPECT_THAT(Reason("a read user=no-such-user"), HasSubstr("no user \"no-such-user\""));
  EXPECT_THAT(Reason("a read group=no-such-group"), HasSubstr("no group"));
  EXPECT_THAT(Reason("a read uid=1\na read uid=2"), HasSubstr("line 2: user a is there already"));
  EXPECT_THAT(Reason("# nobody\n"), HasSubstr("names no user"));
}

TEST(ParseUsersTest, ASecretIsLongAndNeverInAMessage) {
  EXPECT_THAT(Reason("a read secret=tooshort"), HasSubstr("8 characters"));
  EXPECT_THAT(Reason("a read secret=tooshort"), Not(HasSubstr("tooshort")));
  EXPECT_THAT(Reason(absl::StrCat("a read ", kSecret)), Not(HasSubstr(kSecret)));
  EXPECT_THAT(Reason(absl::StrCat("a read secret=", kSecret, " secret=", kSecret)), HasSubstr("two secrets"));
}

class ReadUsersFileTest : public testing::Test {
 protected:
  void Write(mode_t mode) {
    path_ = absl::StrCat(testing::TempDir(), "/users");
    FILE* const file = fopen(path_.c_str(), "w");
    ASSERT_NE(file, nullptr);
    fprintf(file, "app read secret=%s\n", kSecret);
    fclose(file);
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string path_;
};

TEST_F(ReadUsersFileTest, IsForItsOwnerAlone) {
  for (const mode_t mode : {0600, 0400, 0640, 0440}) {
    Write(mode);
    EXPECT_TRUE(ReadUsersFile(path_).ok()) << mode;
  }
  for (const mode_t mode : {0644, 0660, 0602, 0601}) {
    Write(mode);
    const absl::Status status = ReadUsersFile(path_).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << mode << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod")) << mode;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadUsersFile(path_ + "_not").status()));
  EXPECT_FALSE(ReadUsersFile(testing::TempDir()).ok());
}

TEST_F(ReadUsersFileTest, ARelativeNameIsACredentialOfSystemd) {
  Write(0400);
  ASSERT_EQ(setenv("CREDENTIALS_DIRECTORY", testing::TempDir().c_str(), 1), 0);
  EXPECT_TRUE(ReadUsersFile("users").ok());
  unsetenv("CREDENTIALS_DIRECTORY");
}

}  // namespace
}  // namespace farlook::server
