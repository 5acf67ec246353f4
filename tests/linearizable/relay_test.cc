#include "tests/linearizable/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace farlook {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool Arrives(int fd, int timeout_ms) {
  pollfd readable = {fd, POLLIN, 0};
  return poll(&readable, 1, timeout_ms) == 1;
}

// Returns what arrives within a minute, 4 bytes.
std::string Next(int fd) {
  std::string bytes(4, ' ');
  if (!Arrives(fd, 60'000) || recv(fd, bytes.data(), bytes.size(), MSG_WAITALL) != 4) return "";
  return bytes;
}

class RelayTest : public testing::Test {
 protected:
  RelayTest() : server_(socket(AF_INET, SOCK_STREAM, 0)), near_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(server_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(server_, 1), 0);
    EXPECT_EQ(getsockname(server_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    relay_ = std::make_unique<Relay>("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
    const std::string& to = relay_->address();
    address = Loopback(std::atoi(to.substr(to.rfind(':') + 1).c_str()));
    EXPECT_EQ(connect(near_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    far_ = accept(server_, nullptr, nullptr);
    EXPECT_GE(far_, 0);
  }
  ~RelayTest() override {
    for (const int fd : {near_, far_, server_}) close(fd);
  }

  std::unique_ptr<Relay> relay_;
  const int server_, near_;
  int far_ = -1;
};

TEST_F(RelayTest, BytesGoBothWaysAndAnEndIsToldToTheOther) {
  EXPECT_EQ(send(near_, "ping", 4, 0), 4);
  EXPECT_EQ(Next(far_), "ping");
  EXPECT_EQ(send(far_, "pong", 4, 0), 4);
  EXPECT_EQ(Next(near_), "pong");
  shutdown(far_, SHUT_RDWR);
  char byte;
  EXPECT_EQ(recv(near_, &byte, 1, 0), 0);
}

TEST_F(RelayTest, WhileItIsCutNothingArrivesAndAfterwardsAllDoes) {
  relay_->Cut(true);
  usleep(50'000);  // its last step has ended
  EXPECT_EQ(send(near_, "ping", 4, 0), 4);
  EXPECT_EQ(send(far_, "pong", 4, 0), 4);
  EXPECT_FALSE(Arrives(far_, 200));
  EXPECT_FALSE(Arrives(near_, 0));
  relay_->Cut(false);
  EXPECT_EQ(Next(far_), "ping");
  EXPECT_EQ(Next(near_), "pong");
}

}  // namespace
}  // namespace farlook
