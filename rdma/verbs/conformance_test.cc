// The verbs backend under the suite that all backends pass. The environment says where (see tests/vm/run --help).
#include <atomic>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

std::string FromEnvironment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string UnusedRdmaAddress() {
  static std::atomic<int> next{20'000};
  return absl::StrCat("rdma://", FromEnvironment("FARLOOK_RDMA_ADDRESS", "10.0.0.1"), ":", next++);
}

Backend Verbs() {
  Backend backend;
  backend.name = "verbs";
  backend.unused_address = UnusedRdmaAddress;
  backend.foreign_addresses = {"shm:///tmp/other", "rdma://nowhere", "nonsense", ""};
  backend.grants_keys = false;  // see ConnectionRequest::Accept
  backend.names_refusals = !absl::StartsWith(FromEnvironment("FARLOOK_RDMA_DEVICE", "rxe0"), "siw");
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Verbs, ConformanceTest, testing::Values(Verbs()),
                         [](const testing::TestParamInfo<Backend>&) { return "Backend"; });

}  // namespace
}  // namespace farlook::rdma::conformance
