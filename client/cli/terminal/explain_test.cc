#include "client/cli/terminal/explain.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Options At(const std::string& address) {
  Options options;
  options.address = address;
  options.timeout_ms = 250;
  return options;
}

// Like the status of Client::Connect.
absl::Status NotConnected(absl::StatusCode code, absl::string_view said) {
  return absl::Status(code, absl::StrCat("cannot connect to shm:///x: ", said));
}

// Each refusal of a server, with its own text.
TEST(ExplainTest, RefusalsSayWhatHappenedAndWhatToDo) {
  const Options options = At("shm:///x");
  EXPECT_THAT(
      Explain(NotConnected(absl::StatusCode::kUnavailable, "the server is shutting down; try again when it is back"),
              options),
      AllOf(HasSubstr("the server at shm:///x is shutting down"), HasSubstr("--wait"),
            Not(HasSubstr("start it with"))));
  EXPECT_EQ(
      Explain(NotConnected(absl::StatusCode::kResourceExhausted,
                           "the server has its limit of 2 clients; close some, or raise --max_clients"),
              options),
      "the server at shm:///x is full: the server has its limit of 2 clients; close some, or raise --max_clients; "
      "--wait waits for room; run kv_cli clients on its host, as root or the server's user, to list them");
  EXPECT_THAT(Explain(NotConnected(absl::StatusCode::kPermissionDenied, "user 17 may not"), options),
              AllOf(HasSubstr("does not allow this: ask its operator"), HasSubstr("(user 17 may not)")));
  EXPECT_EQ(Explain(NotConnected(absl::StatusCode::kFailedPrecondition, "there is no table \"t\" here: use another"),
                    options),
            "there is no table \"t\" here: use another");
  EXPECT_EQ(
      Explain(NotConnected(absl::StatusCode::kFailedPrecondition,
                           "Farlook protocol version 2 here, 3 at the client: use the same release on both sides"),
              options),
      "Farlook protocol version 2 here, 3 at the client: use the same release on both sides");
  EXPECT_THAT(
      Explain(NotConnected(absl::StatusCode::kUnavailable, "connection refused"), options),
      AllOf(HasSubstr("no server answers at shm:///x: start it with kv_server"), HasSubstr("(connection refused)")));
}

TEST(ExplainTest, AnotherUsersSocketHasNothingToDoWithReadOnly) {
  Options options = At("shm:///x");
  options.read_only = true;
  const std::string said = Explain(
      NotConnected(absl::StatusCode::kPermissionDenied, "this user may not connect to /x: ask its owner"), options);
  EXPECT_THAT(said, AllOf(HasSubstr("may not connect to /x"), Not(HasSubstr("--read_only"))));
}

TEST(ExplainTest, AServerThatStartsIsWaitedFor) {
  EXPECT_EQ(Explain(NotConnected(absl::StatusCode::kUnavailable, "the server is starting: preparing memory, 37 %"),
                    At("shm:///x")),
            "the server is starting: preparing memory, 37 %; try again, or wait for it with --wait");
}

TEST(ExplainTest, NobodyIsToldToStartAServerThatIsStopped) {
  EXPECT_EQ(Explain(NotConnected(absl::StatusCode::kUnavailable,
                                 "no answer from the server at shm:///x in time: it is stopped or overloaded"),
                    At("shm:///x")),
            "the server at shm:///x does not answer: it is stopped or overloaded; let it go on, or wait for it with "
            "--wait");
  EXPECT_EQ(
      Explain(NotConnected(absl::StatusCode::kUnavailable, "no server answered within the time given"),
              At("tcp://h:1")),
      "no server answers at tcp://h:1 in time: it is stopped, overloaded, out of reach or not there; --wait waits "
      "for it");
}

TEST(ExplainTest, NobodyIsToldToStartAServerWhereNoneCanBe) {
  Options options;
  options.address = "shm:///etc/passwd/kv";
  EXPECT_EQ(Explain(NotConnected(absl::StatusCode::kUnavailable, "cannot connect to /etc/passwd/kv: Not a directory"),
                    options),
            "no server can be at shm:///etc/passwd/kv: a part of the path is a file; give another --address (cannot "
            "connect to /etc/passwd/kv: Not a directory)");
}

TEST(ExplainTest, ReadOnlyIsTheUsersOwnChoice) {
  Options options = At("shm:///x");
  options.read_only = true;
  EXPECT_THAT(Explain(absl::PermissionDeniedError("this client connected with read_only"), options),
              HasSubstr("omit it to write"));
}

class ExplainOperationTest : public CommandTest {
 protected:
  // Runs a put and a get of k that end with this status, and keeps their output.
  void FailWith(const absl::Status& status) {
    store().set_fault([status](uint64_t, const client::Operation&) { return status; });
    EXPECT_EQ(Run({"put", "k", "v"}), ExitCode::kError);
    put_ = Err();
    EXPECT_EQ(Run({"get", "k"}), ExitCode::kError);
    get_ = Err();
  }
  std::string put_, get_;
};

TEST_F(ExplainOperationTest, AWriteWhoseTimeWasOverIsOpenUnlessTheServerSaysOtherwise) {
  FailWith(absl::DeadlineExceededError("not done in time"));
  EXPECT_THAT(put_, AllOf(HasSubstr("no answer within 1000 ms"), HasSubstr("the write may have been done")));
  EXPECT_THAT(get_, AllOf(HasSubstr("no answer within 1000 ms"), Not(HasSubstr("may have been done"))));
  FailWith(absl::DeadlineExceededError("its deadline passed before the server began it: nothing was done"));
  EXPECT_THAT(put_, AllOf(HasSubstr("did nothing"), HasSubstr("--timeout_ms=N"), Not(HasSubstr("may have been done"))));
}

TEST_F(ExplainOperationTest, WhatIsShortIsNamed) {
  FailWith(
      absl::ResourceExhaustedError("the server's index is full for keys whose hashes collide with this one's; use "
                                   "another key"));
  EXPECT_EQ(put_,
            "kv_cli: put: key \"k\" was not stored: the server's index is full for keys whose hashes collide with "
            "this one's; use another key\n");
  FailWith(absl::ResourceExhaustedError("this process has no memory for a value of 9 bytes"));
  EXPECT_EQ(get_, "kv_cli: get: key \"k\": this process has no memory for a value of 9 bytes\n");
}

TEST_F(ExplainOperationTest, AKeyOfAnotherKindIsToldFromAServerOfAnotherRelease) {
  FailWith(absl::FailedPreconditionError("the key names a counter; use the calls for counters, or another key"));
  EXPECT_EQ(get_, "kv_cli: get: key \"k\" names a counter, not a value: `counter KEY` prints it\n");
  FailWith(
      absl::FailedPreconditionError("Farlook protocol version 2 here, 3 at the server: use the same release on both "
                                    "sides"));
  EXPECT_EQ(get_,
            "kv_cli: get: key \"k\": Farlook protocol version 2 here, 3 at the server: use the same release on "
            "both sides\n");
}

}  // namespace
}  // namespace farlook::cli
