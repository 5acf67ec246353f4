#include "rdma/test_address.h"

#include <atomic>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"

namespace farlook::rdma {
namespace {

const char* RdmaHost() { return std::getenv("FARLOOK_RDMA_ADDRESS"); }

const char* TcpHost() { return std::getenv("FARLOOK_TCP_ADDRESS"); }

}  // namespace

bool TestsUseTcp() { return TcpHost() != nullptr; }
bool TestsUseRdma() { return RdmaHost() != nullptr; }

std::string UnusedTestAddress() {
  // Other processes take theirs too. The ports are below those that the kernel assigns.
  constexpr unsigned kFirstPort = 20'000, kPorts = 12'000;
  static const unsigned start = std::random_device()();
  static std::atomic<unsigned> next{0};
  const unsigned count = next.fetch_add(1, std::memory_order_relaxed);
  if (const char* host = RdmaHost(); host != nullptr) {
    return absl::StrCat("rdma://", host, ":", kFirstPort + (start + count) % kPorts);
  }
  if (const char* host = TcpHost(); host != nullptr) {
    return absl::StrCat("tcp://", host, ":", kFirstPort + (start + count) % kPorts);
  }
  // Not in TEST_TMPDIR: the path of a socket must be short.
  return absl::StrCat("shm:///tmp/farlook_test_", start, "_", count);
}

}  // namespace farlook::rdma
