#include "tests/linearizable/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"

namespace farlook {
namespace {

constexpr int kTickMs = 5;  // between checks whether the link is cut

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Moves what has arrived, at most one buffer. False: the connection is closed.
bool Move(int from, int to) {
  std::array<char, 65'536> bytes;
  const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t some = send(to, bytes.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (some <= 0) return false;
    sent += some;
  }
  return true;
}

}  // namespace

Relay::Relay(const std::string& to) : to_port_(std::atoi(to.substr(to.rfind(':') + 1).c_str())) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Run(); });
}

Relay::~Relay() {
  over_ = true;
  thread_.join();
  for (const Pair& pair : pairs_) {
    close(pair.near);
    close(pair.far);
  }
  close(listener_);
}

void Relay::Accept() {
  Pair pair;
  pair.near = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (pair.near < 0) return;
  pair.far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(to_port_);
  if (connect(pair.far, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    pairs_.push_back(pair);
    return;
  }
  close(pair.near);
  close(pair.far);
}

void Relay::Run() {
  while (!over_) {
    if (cut_) {
      usleep(kTickMs * 1000);
      continue;
    }
    std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      fds.push_back({pair.near, POLLIN, 0});
      fds.push_back({pair.far, POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), kTickMs) <= 0 || cut_) continue;
    size_t i = 1;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); i += 2) {
      const bool good = (fds[i].revents == 0 || Move(pair->near, pair->far)) &&
                        (fds[i + 1].revents == 0 || Move(pair->far, pair->near));
      if (good) {
        ++pair;
        continue;
      }
      close(pair->near);
      close(pair->far);
      pair = pairs_.erase(pair);
    }
    if (fds[0].revents != 0) Accept();
  }
}

}  // namespace farlook
