// Ports that clients' sockets occupy.
#include "rdma/tcp/socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::tcp {
namespace {

constexpr int64_t kLivenessMs = 1000;

SocketAddress Localhost(uint16_t port) {
  SocketAddress address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(address.get());
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.set_port(port);
  return address;
}

uint16_t PortOf(int socket) {
  SocketAddress address;
  socklen_t bytes = sizeof(address.storage);
  EXPECT_EQ(getsockname(socket, address.get(), &bytes), 0);
  return ntohs(reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
}

absl::Status Listen(uint16_t port) {
  Address address;
  address.scheme = Scheme::kTcp;
  address.host = "127.0.0.1";
  address.port = port;
  return ListenAt(address).status();
}

// Returns a socket that is connected to itself, like that of a client that was assigned the port it dials.
UniqueFd ConnectedToItself() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  SocketAddress address = Localhost(0);
  EXPECT_EQ(bind(socket.get(), address.get(), address.bytes()), 0);
  address = Localhost(PortOf(socket.get()));
  connect(socket.get(), address.get(), address.bytes());
  pollfd connected = {socket.get(), POLLOUT, 0};
  EXPECT_EQ(poll(&connected, 1, /*timeout=*/30'000), 1);
  return socket;
}

TEST(SocketTest, AConnectionToItselfLeavesThePortFree) {
  UniqueFd socket = ConnectedToItself();
  const uint16_t port = PortOf(socket.get());
  const Dialed dialed = LookAtDialed(socket.get());
  EXPECT_FALSE(dialed.connected);
  EXPECT_EQ(dialed.error, ECONNREFUSED);
  // Ends it like a failed connection.
  shutdown(socket.get(), SHUT_RDWR);
  socket.reset();
  EXPECT_TRUE(Listen(port).ok()) << Listen(port);
}

TEST(SocketTest, APortThatAClientHasIsFreeForAServer) {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress address = Localhost(0);
  ASSERT_EQ(bind(server.get(), address.get(), address.bytes()), 0);
  ASSERT_EQ(listen(server.get(), 1), 0);
  int error = 0;
  const absl::StatusOr<UniqueFd> client = Dial(Localhost(PortOf(server.get())), kLivenessMs, &error);
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_EQ(error, 0);
  EXPECT_TRUE(Listen(PortOf(client->get())).ok()) << Listen(PortOf(client->get()));
}

}  // namespace
}  // namespace farlook::rdma::tcp
