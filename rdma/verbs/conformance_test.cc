// Runs the verbs backend through the suite that all backends pass, at the address in the environment (see tests/vm/run
// --help).
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
  backend.names_refusals = !absl::StartsWith(FromEnvironment("FARLOOK_RDMA_DEVICE", "rxe0"), "siw");
  return backend;
}

std::string Name(const testing::TestParamInfo<Backend>&) { return "Backend"; }

INSTANTIATE_TEST_SUITE_P(Verbs, ConformanceTest, testing::Values(Verbs()), Name);
INSTANTIATE_TEST_SUITE_P(Verbs, RealTimeConformanceTest, testing::Values(Verbs()), Name);
INSTANTIATE_TEST_SUITE_P(Verbs, AtomicConformanceTest, testing::Values(Verbs()), Name);
INSTANTIATE_TEST_SUITE_P(Verbs, LoopbackConformanceTest, testing::Values(Verbs()), Name);

}  // namespace
}  // namespace farlook::rdma::conformance
