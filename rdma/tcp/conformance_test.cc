// Runs the TCP backend through the suite that all backends pass.
#include <string>

#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/tcp/test_address.h"

namespace farlook::rdma::conformance {
namespace {

Backend Tcp() {
  Backend tcp = {"tcp", tcp::UnusedAddress, {"rdma://localhost:1", "shm:///tmp/x", "tcp://localhost", ""}};
  tcp.reads_need_polls = true;
  return tcp;
}

std::string Name(const testing::TestParamInfo<Backend>&) { return "Backend"; }

INSTANTIATE_TEST_SUITE_P(Tcp, ConformanceTest, testing::Values(Tcp()), Name);
INSTANTIATE_TEST_SUITE_P(Tcp, RealTimeConformanceTest, testing::Values(Tcp()), Name);

}  // namespace
}  // namespace farlook::rdma::conformance
