// Runs the shm backend through the suite that all backends pass.
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

std::string UnusedShmAddress() {
  static std::atomic<int> next{0};
  // TEST_TMPDIR is longer than a socket's path may be.
  return absl::StrCat("shm:///tmp/farlook_conformance_", std::random_device()(), "_", next++);
}

Backend Shm() { return {"shm", UnusedShmAddress, {"rdma://localhost:1", "shm://relative", "nonsense", ""}}; }

std::string Name(const testing::TestParamInfo<Backend>&) { return "Backend"; }

INSTANTIATE_TEST_SUITE_P(Shm, ConformanceTest, testing::Values(Shm()), Name);
INSTANTIATE_TEST_SUITE_P(Shm, RealTimeConformanceTest, testing::Values(Shm()), Name);
INSTANTIATE_TEST_SUITE_P(Shm, AtomicConformanceTest, testing::Values(Shm()), Name);
INSTANTIATE_TEST_SUITE_P(Shm, LocalConformanceTest, testing::Values(Shm()), Name);

}  // namespace
}  // namespace farlook::rdma::conformance
