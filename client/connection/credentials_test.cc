#include "client/connection/credentials.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
constexpr char kOther[] = "another secret of 32 characters!";

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { Clear(); }
  ~CredentialsTest() override { Clear(); }
  static void Clear() {
    for (const char* name : {"FARLOOK_USER", "FARLOOK_SECRET", "FARLOOK_SECRET_FILE"}) unsetenv(name);
  }
  static std::string File(const std::string& text, mode_t mode) {
    const std::string path = absl::StrCat(testing::TempDir(), "/secret");
    FILE* const file = fopen(path.c_str(), "w");
    EXPECT_NE(file, nullptr);
    fputs(text.c_str(), file);
    fclose(file);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  ClientOptions options_;
};

TEST_F(CredentialsTest, NoneIsFine) {
  EXPECT_TRUE(FindCredentials(&options_).ok());
  EXPECT_EQ(options_.user, "");
}

TEST_F(CredentialsTest, OptionsComeBeforeTheEnvironment) {
  setenv("FARLOOK_USER", "env", 1);
  setenv("FARLOOK_SECRET", kOther, 1);
  ASSERT_TRUE(FindCredentials(&options_).ok());
  EXPECT_EQ(options_.user, "env");
  EXPECT_EQ(options_.secret, kOther);
  ClientOptions given;
  given.user = "app";
  given.secret_file = File(absl::StrCat(kSecret, "\nmore\n"), 0600);
  ASSERT_TRUE(FindCredentials(&given).ok());
  EXPECT_EQ(given.user, "app");
  EXPECT_EQ(given.secret, kSecret);
  setenv("FARLOOK_SECRET_FILE", given.secret_file.c_str(), 1);
  ClientOptions file;
  ASSERT_TRUE(FindCredentials(&file).ok());
  EXPECT_EQ(file.secret, kSecret);
}

TEST_F(CredentialsTest, OneWithoutTheOtherIsToldSo) {
  options_.user = "app";
  EXPECT_THAT(std::string(FindCredentials(&options_).message()), HasSubstr("a user without a secret"));
  ClientOptions secret;
  secret.secret = kSecret;
  EXPECT_THAT(std::string(FindCredentials(&secret).message()), HasSubstr("a secret without a user"));
}

TEST_F(CredentialsTest, AFileThatOthersMayReadIsRefused) {
  options_.user = "app";
  options_.secret_file = File(kSecret, 0644);
  const absl::Status status = FindCredentials(&options_);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;  // not PERMISSION_DENIED, which is a server's reply
  EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600"));
  ClientOptions missing;
  missing.user = "app";
  missing.secret_file = "/no/such/file";
  EXPECT_TRUE(absl::IsInvalidArgument(FindCredentials(&missing)));  // not NOT_FOUND, which is about keys
}

TEST_F(CredentialsTest, WhiteSpaceAroundASecretIsNoPartOfIt) {
  setenv("FARLOOK_USER", "app", 1);
  setenv("FARLOOK_SECRET", absl::StrCat(kSecret, "\n").c_str(), 1);
  ASSERT_TRUE(FindCredentials(&options_).ok());
  EXPECT_EQ(options_.secret, kSecret);
  ClientOptions given;
  given.secret = absl::StrCat(" ", kOther, "\r\n");
  ASSERT_TRUE(FindCredentials(&given).ok());
  EXPECT_EQ(given.secret, kOther);
}

TEST_F(CredentialsTest, AShortSecretIsRefusedAndNotTold) {
  options_.user = "app";
  options_.secret = "tooshort";
  const absl::Status status = FindCredentials(&options_);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("tooshort")));
}

}  // namespace
}  // namespace farlook::client
