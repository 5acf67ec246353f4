// Addresses with names: they resolve while the caller goes on, and all addresses of a name are used.
#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/address.h"
#include "rdma/resolver_testing.h"
#include "rdma/tcp/endpoint.h"
#include "rdma/tcp/listener.h"
#include "rdma/tcp/test_address.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {
namespace {

constexpr int64_t kLongMs = 60'000;
// An address for documentation (RFC 5737): no host has it. A packet to it is lost, or refused.
constexpr char kNowhere[] = "192.0.2.1";

class NamesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto client = TcpEndpoint::Create({});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  ~NamesTest() override {
    connection_.reset();
    accepted_.clear();
    client_.reset();
    server_.reset();
  }

  std::string At(absl::string_view host) const { return absl::StrCat("tcp://", host, ":", port_); }
  absl::StatusOr<std::unique_ptr<TcpListener>> TryToListen(absl::string_view host) const {
    return TcpListener::Create(*ParseAddress(At(host)), {});
  }
  void Listen(absl::string_view host) {
    auto listener = TryToListen(host);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    server_ = *listener_->CreateEndpoint();
  }
  void Connect(absl::string_view host, int64_t timeout_ms = kLongMs) {
    connection_.reset();
    auto connection = client_->Connect(At(host), "hello", timeout_ms);
    ASSERT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }
  // Polls both sides until the client's connection has one of these completions.
  Opcode Await() {
    for (;;) {
      Completion done[8];
      if (listener_ != nullptr) {
        for (auto request = listener_->Next(); request != nullptr; request = listener_->Next()) {
          accepted_.push_back(*request->Accept(server_.get(), "", {}));
        }
        server_->Poll(absl::MakeSpan(done));
      }
      if (client_->Poll(absl::MakeSpan(done)) > 0) return done[0].opcode;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void ExpectConnected(absl::string_view host) {
    Connect(host);
    ASSERT_EQ(Await(), Opcode::kConnected) << connection_->status();
  }

  const std::string unused_ = UnusedAddress();
  const std::string port_ = unused_.substr(unused_.rfind(':') + 1);
  TestResolver names_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<Endpoint> server_;
  std::vector<std::unique_ptr<Connection>> accepted_;
  std::unique_ptr<TcpEndpoint> client_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(NamesTest, AServerAtTheSecondAddressOfANameIsFound) {
  Listen("127.0.0.1");
  names_.Set("server", {"127.0.0.2", "127.0.0.1"});
  ExpectConnected("server");
  EXPECT_EQ(connection_->server_address(), absl::StrCat("127.0.0.1:", port_));
}

TEST_F(NamesTest, AnAddressThatDoesNotAnswerHoldsUpNoOther) {
  Listen("127.0.0.1");
  names_.Set("server", {kNowhere, "127.0.0.1"});
  ExpectConnected("server");
}

TEST_F(NamesTest, TheErrorSaysWhichAddressesWereTried) {
  names_.Set("server", {"127.0.0.2", "127.0.0.1"});
  Connect("server");
  ASSERT_EQ(Await(), Opcode::kDisconnected);
  const absl::Status status = connection_->status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(),
                                absl::StrCat("no answer from ", At("server"), ": 127.0.0.2:", port_,
                                             ": Connection refused, 127.0.0.1:", port_, ": Connection refused; ")))
      << status;
}

TEST_F(NamesTest, OfANumericAddressTheErrorIsShort) {
  Connect("127.0.0.1");
  ASSERT_EQ(Await(), Opcode::kDisconnected);
  EXPECT_TRUE(absl::StrContains(connection_->status().message(),
                                absl::StrCat("no answer from ", At("127.0.0.1"), ": Connection refused; ")))
      << connection_->status();
}

TEST_F(NamesTest, AnUnknownNameIsAnError) {
  Connect("nobody");
  ASSERT_EQ(Await(), Opcode::kDisconnected);
  EXPECT_TRUE(absl::StrContains(connection_->status().message(), "the name nobody does not resolve"))
      << connection_->status();
}

// Only the test ends these lookups: if the caller waited for one, the test would hang.
TEST_F(NamesTest, WhileTheResolverHangsTheCallerGoesOn) {
  Listen("127.0.0.1");
  names_.Set("server", {"127.0.0.1"});
  names_.Hang();
  Connect("server");
  Completion done[8];
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client_->Poll(absl::MakeSpan(done)), 0u);
  names_.GoOn();
  EXPECT_EQ(Await(), Opcode::kConnected) << connection_->status();
}

TEST_F(NamesTest, WhileTheResolverHangsTheTimeEnds) {
  names_.Set("server", {"127.0.0.1"});
  names_.Hang();
  Connect("server", /*timeout_ms=*/200);
  ASSERT_EQ(Await(), Opcode::kDisconnected);
  EXPECT_TRUE(absl::StrContains(connection_->status().message(), "the name server does not resolve in time"))
      << connection_->status();
}

TEST_F(NamesTest, WhoSleepsIsWokenByTheAnswer) {
  Listen("127.0.0.1");
  names_.Set("server", {"127.0.0.1"});
  names_.Hang();
  Connect("server");
  Completion done[8];
  ASSERT_EQ(client_->Poll(absl::MakeSpan(done)), 0u);
  names_.GoOn();
  // Expect: the endpoint becomes readable again and again, until there is a connection.
  while (!connection_->alive()) {
    if (client_->Arm()) {
      pollfd ready = {client_->fd(), POLLIN, 0};
      ASSERT_EQ(poll(&ready, 1, kLongMs), 1);
    }
    if (auto request = listener_->Next(); request != nullptr) {
      accepted_.push_back(*request->Accept(server_.get(), "", {}));
    }
    server_->Poll(absl::MakeSpan(done));
    client_->Poll(absl::MakeSpan(done));
  }
}

TEST_F(NamesTest, ANameThatResolvedBeforeIsReachedWhileTheResolverHangs) {
  Listen("127.0.0.1");
  names_.Set("server", {"127.0.0.1"});
  ExpectConnected("server");
  // An answer is valid for a second; after that there is another lookup, which hangs.
  names_.Hang();
  while (names_.lookups() == 1) ExpectConnected("server");
  EXPECT_TRUE(connection_->alive());
}

TEST_F(NamesTest, AServerListensAtAllAddressesOfAName) {
  names_.Set("server", {"127.0.0.2", "127.0.0.3"});
  Listen("server");
  EXPECT_EQ(listener_->address(), At("server"));
  EXPECT_EQ(listener_->bound(),
            (std::vector<std::string>{absl::StrCat("127.0.0.2:", port_), absl::StrCat("127.0.0.3:", port_)}));
  ExpectConnected("127.0.0.3");
  ExpectConnected("127.0.0.2");
}

TEST_F(NamesTest, AnAddressOfAnotherHostIsLeftOut) {
  names_.Set("server", {kNowhere, "127.0.0.2"});
  Listen("server");
  EXPECT_EQ(listener_->bound(), std::vector<std::string>{absl::StrCat("127.0.0.2:", port_)});
  names_.Set("other", {kNowhere});
  const absl::Status status = TryToListen("other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("(", kNowhere, ":", port_, ") is no address of this")))
      << status;
}

TEST_F(NamesTest, AnAddressThatIsInUseIsAnError) {
  Listen("127.0.0.3");
  names_.Set("server", {"127.0.0.2", "127.0.0.3"});
  const absl::Status status = TryToListen("server").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("127.0.0.3:", port_))) << status;
}

}  // namespace
}  // namespace farlook::rdma::tcp
