// Tests that the code of docs/guide.md works.
#include "tests/guide/guide.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "server/base/log.h"
#include "server/daemon/server.h"

namespace farlook_guide {
namespace {

class GuideTest : public testing::Test {
 protected:
  GuideTest() {
    farlook::server::SetLogLevel(farlook::server::LogLevel::kNone);
    farlook::server::ServerOptions options;
    options.listen = {farlook::rdma::UnusedTestAddress()};
    options.memory_bytes = 32 << 20;
    options.counter_memory_bytes = 1 << 20;
    options.huge_pages = farlook::rdma::HugePages::kNone;
    server_ = *farlook::server::Server::Start(options);
    address_ = server_->addresses()[0];
    client_ = *ConnectPatiently(address_);
  }

  std::string ValueOf(std::string_view key) { return client_->Get(key).value_or(farlook::Value{"absent"}).data; }

  std::unique_ptr<farlook::server::Server> server_;
  std::string address_;
  std::unique_ptr<farlook::Client> client_;
};

TEST_F(GuideTest, AppendReadsChangesAndWrites) {
  EXPECT_EQ(Append(*client_, "log", "one,"), absl::OkStatus());
  EXPECT_EQ(Append(*client_, "log", "two"), absl::OkStatus());
  EXPECT_EQ(ValueOf("log"), "one,two");
}

TEST_F(GuideTest, BatchesAndManyInFlight) {
  EXPECT_EQ(PutAll(*client_, {{"a", "1"}, {"b", "22"}, {"c", std::string(100'000, 'c')}}), absl::OkStatus());
  const std::vector<std::string_view> keys = {"a", "none", "b", "c"};
  EXPECT_EQ(*TotalBytes(*client_, keys), 100'003);
}

TEST_F(GuideTest, ScansContinueFromTheirCursors) {
  std::map<std::string, std::string> users;
  for (int i = 0; i < 2'500; ++i) users["user:" + std::to_string(i)] = std::to_string(i);
  EXPECT_EQ(PutAll(*client_, users), absl::OkStatus());
  EXPECT_EQ(client_->Put("other", "x").status(), absl::OkStatus());
  std::map<std::string, std::string> found;
  std::string cursor;
  int calls = 0;
  for (; cursor != "end"; ++calls) {
    auto some = UsersOf(*client_, &cursor);
    ASSERT_TRUE(some.ok()) << some.status();
    found.merge(*some);
  }
  EXPECT_EQ(found, users);
  EXPECT_GE(calls, 3);
}

TEST_F(GuideTest, CallbacksFollowEachOther) {
  EXPECT_EQ(client_->Put("from", "value").status(), absl::OkStatus());
  std::vector<absl::Status> ended;
  CopyLater(*client_, "from", "to", [&](const absl::Status& status) { ended.push_back(status); });
  CopyLater(*client_, "none", "nowhere", [&](const absl::Status& status) { ended.push_back(status); });
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  while (client_->in_flight() > 0) PollOnce(*client_, fds[0]);
  close(fds[0]);
  close(fds[1]);
  ASSERT_EQ(ended.size(), 2);
  EXPECT_TRUE(absl::IsNotFound(ended[0]) != absl::IsNotFound(ended[1]));
  EXPECT_EQ(ValueOf("to"), "value");
  EXPECT_EQ(ValueOf("nowhere"), "absent");
}

TEST_F(GuideTest, WhatIsWorthTryingAgainIsTriedAgain) {
  const std::unique_ptr<farlook::Client> client = *farlook::Client::Connect(address_);
  EXPECT_EQ(PutStubbornly(*client, "key", "value"), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(PutStubbornly(*client, "", "value")));
  // A server that is only stopped may still be connected to, and answers nothing: an attempt ends with its deadline.
  client_.reset();
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(PutStubbornly(*client, "key", "other")));
}

TEST_F(GuideTest, EachThreadHasItsClient) {
  ASSERT_EQ(client_->CreateCounter("visits"), absl::OkStatus());
  CountInThreads(address_, 3);
  EXPECT_EQ(*client_->ReadCounter("visits"), 3000);
}

}  // namespace
}  // namespace farlook_guide
