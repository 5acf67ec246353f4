// For tests: returns whether no socket listens at the port.
#ifndef FARLOOK_RDMA_TCP_TEST_ADDRESS_H_
#define FARLOOK_RDMA_TCP_TEST_ADDRESS_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::tcp {

inline bool IsUnused(uint16_t port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) {  // otherwise no port would ever look unused
    std::perror("a test cannot look for an unused port: socket");
    std::abort();
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool unused = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  return unused;
}

// Returns another address of this host at each call. Tests that run at the same time take theirs too. So the first one
// is random, and used ones are skipped. All are below the ports that the kernel assigns.
inline std::string UnusedAddress() {
  constexpr unsigned kFirstPort = 20'000, kPorts = 12'000;
  static const unsigned start = std::random_device()();
  static std::atomic<unsigned> next{0};
  for (;;) {
    const auto port = static_cast<uint16_t>(kFirstPort + (start + next.fetch_add(1)) % kPorts);
    if (IsUnused(port)) return absl::StrCat("tcp://127.0.0.1:", port);
  }
}

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_TEST_ADDRESS_H_
