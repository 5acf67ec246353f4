// The simulated backend under the suite that all backends pass: without faults, at random delays.
//
// Not linked: the suite that needs real time, since the scheduler wakes who waits and all parties share one thread.
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
using conformance::LocalConformanceTest;

// One world for all tests, each at an address of its own.
struct World {
  explicit World(bool local) { network.options.capabilities.local = local; }
  Scheduler scheduler{conformance::Seed()};
  Network network{&scheduler, NetworkOptions{}};
  SimClock clock{&scheduler};
  int addresses = 0;
};

// They outlive the tests.
World* WorldOf(bool local) {
  static World* const two_hosts = new World(/*local=*/false);
  static World* const one_host = new World(/*local=*/true);
  return local ? one_host : two_hosts;
}

Backend Simulated(const char* name, bool local) {
  World* const world = WorldOf(local);
  Backend backend;
  backend.name = name;
  backend.unused_address = [world] { return absl::StrCat("sim://server", ++world->addresses); };
  backend.foreign_addresses = {"shm:///tmp/x", "sim://", "nonsense", ""};
  backend.listen = [world](absl::string_view address) { return world->network.Listen(address, /*party=*/0); };
  backend.create_endpoint = [world](absl::string_view) -> absl::StatusOr<std::unique_ptr<Endpoint>> {
    return world->network.CreateEndpoint(/*party=*/1);
  };
  backend.clock = &world->clock;
  backend.idle = [world] {
    // Nothing is to come: time passes all the same.
    if (!world->scheduler.RunOne(world->scheduler.now_ns() + 1'000'000)) world->scheduler.Spend(1'000'000);
  };
  return backend;
}

Backend OnTwoHosts() { return Simulated("remote", /*local=*/false); }
Backend OnOneHost() { return Simulated("local", /*local=*/true); }

std::string Name(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Sim, ConformanceTest, testing::Values(OnTwoHosts(), OnOneHost()), Name);
INSTANTIATE_TEST_SUITE_P(Sim, AtomicConformanceTest, testing::Values(OnTwoHosts(), OnOneHost()), Name);
INSTANTIATE_TEST_SUITE_P(Sim, LocalConformanceTest, testing::Values(OnOneHost()), Name);

}  // namespace

}  // namespace farlook::rdma::sim
