// An HTTP server of tests, at a port of its own of 127.0.0.1.
#ifndef FARLOOK_CLUSTER_LOOPBACK_SERVER_H_
#define FARLOOK_CLUSTER_LOOPBACK_SERVER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace farlook::cluster {

// Thread safety: a thread of its own answers, until the destructor.
class LoopbackServer {
 public:
  // Answers each request with `body`, whatever it asks.
  explicit LoopbackServer(absl::string_view body)
      : answer_(absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", body.size(), "\r\n\r\n", body)) {
    Listen();
    thread_ = std::thread([this] {
      for (int client; (client = accept(socket_, nullptr, nullptr)) >= 0; close(client)) {
        char request[4096];
        if (read(client, request, sizeof request) > 0) send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      }
    });
  }
  // Never answers: connections wait in the kernel's queue, as at a stopped process.
  LoopbackServer() { Listen(); }
  ~LoopbackServer() {
    shutdown(socket_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(socket_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  uint16_t port() const { return port_; }
  std::string endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }

 private:
  void Listen() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    EXPECT_EQ(listen(socket_, 64), 0);
    port_ = ntohs(address.sin_port);
  }

  const std::string answer_;
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_LOOPBACK_SERVER_H_
