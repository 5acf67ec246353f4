// For tests: where nobody listens.
#ifndef FARLOOK_RDMA_TCP_TEST_ADDRESS_H_
#define FARLOOK_RDMA_TCP_TEST_ADDRESS_H_

#include <atomic>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::tcp {

// Another one at each call, on this host. Other processes take theirs too, so the first one is random; all are below
// the ports that the kernel hands out.
inline std::string UnusedAddress() {
  constexpr unsigned kFirstPort = 20'000, kPorts = 12'000;
  static const unsigned start = std::random_device()();
  static std::atomic<unsigned> next{0};
  return absl::StrCat("tcp://127.0.0.1:", kFirstPort + (start + next.fetch_add(1)) % kPorts);
}

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_TEST_ADDRESS_H_
