// A client with a user and a secret: what it proves, and which servers it trusts.
#include <string>

#include "client/testing/core_testing.h"
#include "gmock/gmock.h"
#include "kv/wire/handshake.h"

namespace farlook::client {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

constexpr char kSecret[] = "a secret of 32 or more characters";

class CoreUsersTest : public CoreTest {
 protected:
  CoreUsersTest() {
    options_.user = "app";
    options_.secret = kSecret;
    server_->secret = kSecret;
    server_->Put("key", "value");
  }
  // Returns how a put of a new client ends.
  absl::Status Outcome() {
    MakeCore();
    auto put = Start(Kind::kPut, "other", "value");
    Poll();
    EXPECT_TRUE(put->done());
    return put->done() ? put->status() : absl::UnknownError("not over");
  }
};

TEST_F(CoreUsersTest, ProvesWhoItIsAndReadsOnlyThen) {
  MakeCore();
  core_->Connect();
  network_.hold_requests = true;
  Poll();
  EXPECT_EQ(network_.held_requests(), 1) << "the Hello";
  network_.ReleaseRequests();
  Poll();
  EXPECT_EQ(network_.held_requests(), 1) << "the Proof";
  EXPECT_EQ(network_.reads, 0) << "it does not know the table yet";
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_TRUE(core_->ready());
  EXPECT_EQ(server_->user, "app");
  EXPECT_EQ(Get("key"), "value");
  ExpectNoViolations();
}

TEST_F(CoreUsersTest, GoesOnWithItsSession) {
  Connect();
  EXPECT_TRUE(Put("a", "1").ok());
  network_.Break();
  EXPECT_TRUE(Put("a", "2").ok());
  EXPECT_EQ(network_.connects, 2);
  EXPECT_EQ(server_->sessions(), 1u);
  ExpectNoViolations();
}

TEST_F(CoreUsersTest, AWrongSecretIsToldAsItIs) {
  options_.secret = "another secret of 32 or more characters";
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(status.message(), "wrong secret");
  EXPECT_EQ(network_.reads, 0);
}

TEST_F(CoreUsersTest, WithoutASecretItSaysWhatToGive) {
  options_.user.clear();
  options_.secret.clear();
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("FARLOOK_SECRET_FILE"));
}

// Downgrade attacks: a server that does not know the secret is not trusted, whatever it says.
TEST_F(CoreUsersTest, AServerThatDoesNotAskIsRefused) {
  server_->secret.clear();
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not prove"));
  EXPECT_EQ(network_.reads, 0);
  EXPECT_TRUE(network_.sent.empty());
}

TEST_F(CoreUsersTest, AServerThatWelcomesWithoutAChallengeIsRefused) {
  for (const bool proves : {false, true}) {
    server_->challenges = false;
    server_->proves = proves;
    EXPECT_EQ(Outcome().code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(network_.reads, 0);
  }
}

TEST_F(CoreUsersTest, AServerThatDoesNotProveItselfIsRefused) {
  server_->proves = false;
  const absl::Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not prove"));
  EXPECT_EQ(network_.reads, 0);
}

// On one host the kernel identifies both sides.
TEST_F(CoreUsersTest, OnThisHostAServerNeedNotAsk) {
  server_->secret.clear();
  network_.capabilities.local = true;
  EXPECT_TRUE(Outcome().ok());
  EXPECT_EQ(server_->user, "");
}

}  // namespace
}  // namespace farlook::client
