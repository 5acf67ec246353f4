// Servers whose addresses are names, through real clients and a real server: over TCP, or on the RDMA device of
// FARLOOK_RDMA_ADDRESS where that is set.
#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "rdma/resolver_testing.h"
#include "rdma/shared_memory.h"
#include "rdma/tcp/test_address.h"
#include "rdma/test_address.h"
#include "server/base/log.h"
#include "server/daemon/server.h"

namespace farlook {
namespace {

constexpr int64_t kLongMs = 60'000;

class NamesTest : public testing::Test {
 protected:
  NamesTest() {
    server::SetLogLevel(server::LogLevel::kNone);
    // The server listens at the second address. The first has no server, and over RDMA no device.
    names_.Set("kv", {"127.0.0.2", host_});
    StartServer();
  }
  ~NamesTest() override {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
  }

  void StartServer() {
    server::ServerOptions options;
    options.listen = {numeric_};
    options.memory_bytes = 64 << 20;
    options.workers = 1;
    options.huge_pages = rdma::HugePages::kNone;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StopServer() {
    server_->Stop();
    server_.reset();
  }
  absl::Status Connect(int64_t timeout_ms = kLongMs) { return ConnectTo(name_, timeout_ms); }
  absl::Status ConnectTo(const std::string& address, int64_t timeout_ms = kLongMs) {
    client_.reset();
    auto client = Client::Connect(address, {.timeout_ms = timeout_ms, .wait_for_server = true});
    if (client.ok()) client_ = *std::move(client);
    return client.status();
  }

  // The same address with another scheme.
  std::string Over(absl::string_view scheme) const {
    return absl::StrCat(scheme, absl::string_view(name_).substr(name_.find("://")));
  }

  const std::string numeric_ = rdma::TestsUseRdma() ? rdma::UnusedTestAddress() : rdma::tcp::UnusedAddress();
  const std::string port_ = numeric_.substr(numeric_.rfind(':'));
  const std::string host_ = absl::StrReplaceAll(numeric_, {{"tcp://", ""}, {"rdma://", ""}, {port_, ""}});
  const std::string name_ = absl::StrReplaceAll(numeric_, {{host_, "kv"}});
  rdma::TestResolver names_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(NamesTest, AServerAtAnyAddressOfANameIsReached) {
  for (const std::string& address : {name_, Over("auto")}) {
    const absl::Status status = ConnectTo(address);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(client_->Put("key", "value").ok());
  }
}

// Lookups end only when the test does: if Connect() waited for one, the test would hang.
TEST_F(NamesTest, ConnectEndsInTimeThoughTheResolverHangs) {
  names_.Hang();
  for (const std::string& address : {name_, Over("auto")}) {
    const absl::Status status = ConnectTo(address, 300);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "the name kv does not resolve in time")) << status;
  }
}

TEST_F(NamesTest, ANameThatDoesNotResolveIsNamed) {
  names_.Set("kv", {});
  const absl::Status status = Client::Connect(name_, {.timeout_ms = kLongMs}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "the name kv does not resolve")) << status;
}

TEST_F(NamesTest, AServerThatRestartsIsReachedAgainThoughTheResolverHangs) {
  ASSERT_TRUE(Connect().ok());
  ASSERT_TRUE(client_->Put("key", "value").ok());
  names_.Hang();
  // Twice: an answer is good for a second, so the first time may need no lookup.
  for (int i = 0; i < 2; ++i) {
    StopServer();
    StartServer();
    const absl::Status status = client_->Get("key").status();
    EXPECT_TRUE(absl::IsNotFound(status) || absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(client_->Put("key", "value").ok());
    poll(nullptr, 0, 1100);
  }
  EXPECT_GT(names_.lookups(), 1);
}

TEST_F(NamesTest, PollGoesOnWhileTheResolverHangs) {
  ASSERT_TRUE(Connect().ok());
  poll(nullptr, 0, 1100);  // from now on the resolver is asked again
  StopServer();
  names_.Hang();
  GetOperation get("key");
  client_->Start(&get);
  AsyncOperation* done[1];
  // Expect: each Poll() returns although a lookup never ends.
  for (int i = 0; i < 10'000 && names_.lookups() == 1; ++i) {
    ASSERT_EQ(client_->Poll(done), 0u);
    poll(nullptr, 0, 1);
  }
  EXPECT_EQ(names_.lookups(), 2);
  StartServer();
  while (client_->Poll(done) == 0) poll(nullptr, 0, 1);
  EXPECT_EQ(done[0], &get);
  EXPECT_TRUE(absl::IsNotFound(get.status())) << get.status();
}

TEST_F(NamesTest, ACallWithoutTimeLeftIsNotBegun) {
  ASSERT_TRUE(Connect().ok());
  EXPECT_EQ(client_->Put("key", "value", {.timeout_ms = -1}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client_->Get("key").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace farlook
