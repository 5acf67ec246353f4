// The simulated backend under the suite that all backends pass: without faults, at random delays.
//
// Not linked: the suite that needs real time, since the scheduler wakes who waits and all parties share one thread;
// that of reads at once, which this backend has not.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/sim/network.h"
#include "rdma/sim/scheduler.h"

namespace farlook::rdma::sim {
namespace {

using conformance::AtomicConformanceTest;
using conformance::Backend;
using conformance::ConformanceTest;

// One world for all tests, each at an address of its own.
struct World {
  Scheduler scheduler{conformance::Seed()};
  Network network{&scheduler, NetworkOptions{}};
  SimClock clock{&scheduler};
  int addresses = 0;
};

Backend Simulated() {
  static World* const world = new World;
  Backend backend;
  backend.name = "sim";
  backend.unused_address = [] { return absl::StrCat("sim://server", ++world->addresses); };
  backend.foreign_addresses = {"shm:///tmp/x", "sim://", "nonsense", ""};
  backend.listen = [](absl::string_view address) { return world->network.Listen(address, /*party=*/0); };
  backend.create_endpoint = [](absl::string_view) -> absl::StatusOr<std::unique_ptr<Endpoint>> {
    return world->network.CreateEndpoint(/*party=*/1);
  };
  backend.clock = &world->clock;
  backend.idle = [] {
    // Nothing is to come: time passes all the same.
    if (!world->scheduler.RunOne(world->scheduler.now_ns() + 1'000'000)) world->scheduler.Spend(1'000'000);
  };
  return backend;
}

std::string Name(const testing::TestParamInfo<Backend>&) { return "Backend"; }

INSTANTIATE_TEST_SUITE_P(Sim, ConformanceTest, testing::Values(Simulated()), Name);
INSTANTIATE_TEST_SUITE_P(Sim, AtomicConformanceTest, testing::Values(Simulated()), Name);

}  // namespace

}  // namespace farlook::rdma::sim
