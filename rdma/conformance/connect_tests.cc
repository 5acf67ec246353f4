// The beginning of connections: hello, welcome, rejects, and everything that prevents a connection.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

using ::testing::HasSubstr;

TEST_P(ConformanceTest, HelloAndWelcomeArriveAtTheirLongest) {
  StartServer();
  auto client = NewClient();
  Pair full = Connect(client.get(), std::string(kMaxHelloBytes, 'h'), std::string(kMaxWelcomeBytes, 'w'));
  Pair empty = Connect(client.get(), "", "");
  EXPECT_FALSE(full.client->peer().empty());
  EXPECT_FALSE(full.server->peer().empty());
}

TEST_P(ConformanceTest, HelloMayHoldAnyBytes) {
  StartServer();
  auto client = NewClient();
  const std::string bytes("\0\xff\0x", 4);
  Connect(client.get(), bytes, bytes);
}

TEST_P(ConformanceTest, TooLongIsRefusedAtOnce) {
  StartServer();
  auto client = NewClient();
  EXPECT_EQ((*client)->Connect(address_, std::string(kMaxHelloBytes + 1, 'h'), 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  auto connection = (*client)->Connect(address_, "", kConnectTimeoutMs);
  ASSERT_TRUE(connection.ok());
  auto request = NextRequest(client.get());
  EXPECT_EQ(request->Accept(server_->get(), std::string(kMaxWelcomeBytes + 1, 'w'), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  // Expect: the request can still be answered.
  EXPECT_TRUE(request->Accept(server_->get(), "", {}).ok());
}

TEST_P(ConformanceTest, RejectBringsItsReason) {
  StartServer();
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "who", kConnectTimeoutMs);
  ASSERT_TRUE(connection.ok()) << connection.status();
  const std::string reason = "no: " + std::string(kMaxRejectBytes - 4, 'r');
  NextRequest(client.get())->Reject(reason);
  EXPECT_EQ(Await(client.get(), Opcode::kDisconnected).connection, connection->get());
  EXPECT_EQ((*connection)->status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string((*connection)->status().message()), HasSubstr(reason));
}

TEST_P(ConformanceTest, RequestDroppedWithoutAnAnswerIsARejection) {
  StartServer();
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "who", kConnectTimeoutMs);
  ASSERT_TRUE(connection.ok()) << connection.status();
  NextRequest(client.get()).reset();
  Await(client.get(), Opcode::kDisconnected);
  EXPECT_EQ((*connection)->status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_P(ConformanceTest, ConnectingToNobodyEndsWithTheReason) {
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "", 1000);
  ASSERT_TRUE(connection.ok()) << connection.status();
  Await(client.get(), Opcode::kDisconnected);
  EXPECT_EQ((*connection)->status().code(), absl::StatusCode::kUnavailable) << (*connection)->status();
  EXPECT_FALSE((*connection)->PostSend("x", ""));
}

TEST_P(ConformanceTest, ForeignAddressesAreInvalid) {
  auto client = NewClient();
  for (const std::string& address : GetParam().foreign_addresses) {
    EXPECT_EQ((*client)->Connect(address, "", 1000).status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST_P(ConformanceTest, ConnectTimesOutWhileTheServerDoesNotAnswer) {
  StartServer();
  auto client = NewClient();
  constexpr int64_t kTimeoutMs = 2000;  // enough for the request to arrive, on the slowest of machines
  const int64_t begin_ns = GetParam().clock->NowNs();
  auto connection = (*client)->Connect(address_, "", kTimeoutMs);
  ASSERT_TRUE(connection.ok()) << connection.status();
  auto request = NextRequest(client.get());
  ASSERT_NE(request, nullptr);
  Await(client.get(), Opcode::kDisconnected);
  EXPECT_GE(GetParam().clock->NowNs() - begin_ns, kTimeoutMs * 1'000'000);
  EXPECT_EQ((*connection)->status().code(), absl::StatusCode::kUnavailable);

  // Expect: when the server answers, it notices that the client no longer waits.
  connection->reset();
  auto accepted = request->Accept(server_->get(), "", {});
  if (accepted.ok()) Await(server_.get(), Opcode::kDisconnected, client.get());
}

TEST_P(ConformanceTest, ClientThatLeavesBeforeTheAnswerIsNoticed) {
  StartServer();
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "", kConnectTimeoutMs);
  ASSERT_TRUE(connection.ok()) << connection.status();
  auto request = NextRequest(client.get());
  connection->reset();
  auto accepted = request->Accept(server_->get(), "", {});
  if (accepted.ok()) Await(server_.get(), Opcode::kDisconnected, client.get());
}

TEST_P(ConformanceTest, DisconnectWhileConnectingIsAnEnd) {
  StartServer();
  auto client = NewClient();
  auto connection = (*client)->Connect(address_, "", kConnectTimeoutMs);
  ASSERT_TRUE(connection.ok()) << connection.status();
  (*connection)->Disconnect();
  (*connection)->Disconnect();
  ExpectEnd(client.get(), connection->get(), 0);
}

TEST_P(ConformanceTest, OnlyOneServerOnAnAddress) {
  StartServer();
  const absl::Status status = GetParam().listen(address_, options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("in use"));
  auto client = NewClient();
  Connect(client.get());  // the first one still serves
  StopServer();
  // Expect: the address is free again.
  StartServer();
  Connect(client.get());
}

TEST_P(ConformanceTest, OneEndpointCarriesManyConnections) {
  StartServer();
  auto client = NewClient();
  constexpr size_t kConnections = 100;
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kConnections; ++i) {
    pairs.push_back(Connect(client.get(), absl::StrCat("hello ", i), absl::StrCat("welcome ", i)));
    ASSERT_NE(pairs.back().server, nullptr);
    pairs.back().client->context = reinterpret_cast<void*>(i + 1);
  }
  for (int round = 0; round < 3; ++round) {
    // Long silence: a backend may stop polling silent connections.
    for (int i = 0; i < 25'000; ++i) ASSERT_EQ(server_->Pump() + client->Pump(), 0u);
    for (size_t i = 0; i < kConnections; ++i) {
      ASSERT_TRUE(pairs[i].client->PostSend(absl::StrCat("ping ", i), ""));
      pairs[i].client->Ring();
    }
    for (size_t i = 0; i < kConnections; ++i) {
      const Event ping = Await(server_.get(), Opcode::kReceive, client.get());
      ASSERT_NE(ping.connection, nullptr);
      ASSERT_TRUE(ping.connection->PostSend("re: ", ping.message));
      ping.connection->Ring();
    }
    for (size_t i = 0; i < kConnections; ++i) {
      const Event pong = Await(client.get(), Opcode::kReceive);
      ASSERT_NE(pong.connection, nullptr);
      const size_t index = reinterpret_cast<uintptr_t>(pong.connection->context) - 1;
      EXPECT_EQ(pong.message, absl::StrCat("re: ping ", index));
    }
    EXPECT_TRUE(client->events().empty());
    EXPECT_TRUE(server_->events().empty());
  }
}

TEST_P(ConformanceTest, CapabilitiesAreUsable) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  for (const Connection* connection : {pair.client.get(), pair.server.get()}) {
    const Capabilities& can = connection->capabilities();
    EXPECT_GE(can.max_outstanding_reads, 1u);
    EXPECT_GE(can.send_queue_depth, can.max_outstanding_reads);
    EXPECT_GE(can.max_read_sges, 1u);
    EXPECT_LE(can.max_read_sges, kMaxReadSges);
    EXPECT_GE(can.max_read_bytes, uint64_t{1} << 20);
  }
}

TEST_P(ConformanceTest, AListenerSaysWhoChangesWordsForItsClients) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  const AtomicDomain domain = listener_->atomic_domain();
  EXPECT_EQ(pair.client->capabilities().atomics, domain != AtomicDomain::kNone);
  const absl::Status status = listener_->ConnectToItself(counters_).status();
  EXPECT_EQ(status.code(),
            domain == AtomicDomain::kDevice ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition)
      << status;
}

}  // namespace
}  // namespace farlook::rdma::conformance
