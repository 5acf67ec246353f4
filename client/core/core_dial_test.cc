// Connecting to one of several addresses, of which some do not answer: they are tried side by side.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/testing/core_testing.h"
#include "gmock/gmock.h"
#include "kv/wire/handshake.h"

namespace farlook::client {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class CoreDialTest : public CoreTest {
 protected:
  CoreDialTest() { server_->group_epoch = 5; }

  void Begin(absl::string_view addresses) {
    core_ = std::make_unique<ClientCore>(network_.CreateEndpoint(), addresses, options_, clock_, /*random_seed=*/1);
    core_->Connect();
    Poll();
  }
  // Lets time pass until the core is connected; returns how much.
  int64_t AwaitReady(int64_t most_ms) {
    int64_t ms = 0;
    for (; ms < most_ms && !core_->ready(); ++ms) {
      clock_.AdvanceMs(1);
      Poll();
    }
    return ms;
  }
  static absl::Status Refuses(kv::RefusalCode code, absl::string_view text) {
    kv::RejectData reject;
    reject.code = code;
    reject.text = std::string(text);
    return absl::PermissionDeniedError(reject.Encode(rdma::kMaxRejectBytes));
  }
};

TEST_F(CoreDialTest, AddressesThatDoNotAnswerCostAMomentEach) {
  network_.silent = {"fake://a", "fake://b", "fake://c"};
  Begin("fake://a,fake://b,fake://c,fake://d");
  EXPECT_EQ(AwaitReady(1000), 150);
  EXPECT_THAT(network_.dialled, ElementsAre("fake://a", "fake://b", "fake://c", "fake://d"));
  EXPECT_EQ(network_.connections(), 1u) << "nothing is left behind";
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(network_.connects, 4u);
  ExpectNoViolations();
}

TEST_F(CoreDialTest, AnAddressThatAnswersAtOnceIsTheOnlyOneTried) {
  Begin("fake://a,fake://b");
  EXPECT_TRUE(core_->ready());
  clock_.AdvanceMs(200);
  Poll();
  EXPECT_THAT(network_.dialled, ElementsAre("fake://a"));
}

TEST_F(CoreDialTest, TheFirstToAnswerIsUsedWhicheverWasTriedFirst) {
  network_.silent = {"fake://a", "fake://b", "fake://c"};
  Begin("fake://a,fake://b,fake://c");
  AwaitReady(120);
  EXPECT_EQ(network_.connections(), 3u);
  network_.AnswerAt("fake://b");
  Poll();
  EXPECT_TRUE(core_->ready());
  EXPECT_EQ(network_.connections(), 1u);
  // Expect: after a loss the next attempt is at the address that was in use.
  EXPECT_TRUE(Put("key", "value").ok());
  network_.silent.clear();
  network_.Break();
  EXPECT_TRUE(Put("key", "value").ok());
  EXPECT_EQ(network_.dialled.back(), "fake://b");
}

TEST_F(CoreDialTest, AServerThatIsNotThereIsFollowedByTheNextAtOnce) {
  network_.silent = {"fake://a"};
  network_.rejects = {{"fake://b", absl::NotFoundError("no server")}};
  Begin("fake://a,fake://b,fake://c");
  EXPECT_EQ(AwaitReady(1000), 50);
  EXPECT_THAT(network_.dialled, ElementsAre("fake://a", "fake://b", "fake://c"));
  EXPECT_EQ(network_.connections(), 1u);
}

TEST_F(CoreDialTest, AnAttemptThatEndsLeavesTheOthers) {
  network_.silent = {"fake://a", "fake://b"};
  Begin("fake://a,fake://b");
  AwaitReady(60);
  network_.reject = absl::UnavailableError("it ended");
  network_.AnswerAt("fake://a");
  Poll();
  EXPECT_EQ(network_.connections(), 1u);
  network_.reject = absl::OkStatus();
  network_.AnswerAt("fake://b");
  Poll();
  EXPECT_TRUE(core_->ready());
}

TEST_F(CoreDialTest, ThePrimaryThatABackupNamesIsTriedAtOnce) {
  network_.silent = {"fake://a"};
  network_.rejects = {{"fake://b", Refuses(kv::RefusalCode::kNotPrimary, "fake://d")}};
  Begin("fake://a,fake://b,fake://c");
  EXPECT_EQ(AwaitReady(1000), 50);
  EXPECT_THAT(network_.dialled, ElementsAre("fake://a", "fake://b", "fake://d"));
  EXPECT_EQ(network_.connections(), 1u);
}

TEST_F(CoreDialTest, ARefusalThatDoesNotPassEndsAllAttempts) {
  network_.silent = {"fake://a"};
  network_.rejects = {{"fake://b", Refuses(kv::RefusalCode::kNotAllowed, "no user")}};
  Begin("fake://a,fake://b,fake://c");
  auto put = Start(Kind::kPut, "key", "value", 5000);
  PollFor(60, put->operation);
  EXPECT_EQ(put->code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(network_.connections(), 0u);
}

TEST_F(CoreDialTest, WithoutAnAnswerEachAddressIsTriedOnceInARound) {
  network_.silent = {"fake://a", "fake://b", "fake://c"};
  Begin("fake://a,fake://b,fake://c");
  auto put = Start(Kind::kPut, "key", "value", 60'000);
  PollFor(340, put->operation);
  EXPECT_THAT(network_.dialled, SizeIs(3));
  EXPECT_EQ(network_.connections(), 3u);
  PollFor(9'000, put->operation);
  EXPECT_LE(network_.dialled.size(), 24u) << "rounds take longer and longer";
  EXPECT_GE(network_.dialled.size(), 9u);
  EXPECT_LE(network_.connections(), 3u);
  network_.silent.clear();
  PollFor(60'000, put->operation);
  EXPECT_TRUE(put->status().ok()) << put->status();
  EXPECT_EQ(network_.connections(), 1u);
}

TEST_F(CoreDialTest, AClientThatIsDestroyedMeanwhileLeavesNothing) {
  network_.silent = {"fake://a", "fake://b"};
  Begin("fake://a,fake://b");
  AwaitReady(60);
  EXPECT_EQ(network_.connections(), 2u);
  core_.reset();
  EXPECT_EQ(network_.connections(), 0u);
}

// A server without a group has one address, which is waited for.
TEST_F(CoreDialTest, OneAddressIsTriedOnce) {
  server_->group_epoch = 0;
  network_.accepting = false;
  Begin("fake://a");
  auto put = Start(Kind::kPut, "key", "value", 500);
  PollFor(400, put->operation);
  EXPECT_THAT(network_.dialled, ElementsAre("fake://a"));
}

}  // namespace
}  // namespace farlook::client
