// Runs the simulated backend through the suite that all backends pass: without faults, at random delays.
//
// Not linked: the suite that needs real time, since the scheduler does the waking and all parties share one thread.
#include <memory>
#include <string>
#include <vector>

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
  explicit World(bool local, bool served) {
    network.options.capabilities.local = local;
    network.options.capabilities.reads_at_once = !local;
    network.options.served_reads = served;
    network.options.capabilities.atomics = !served;
  }
  Scheduler scheduler{conformance::Seed()};
  Network network{&scheduler, NetworkOptions{}};
  SimClock clock{&scheduler};
  int addresses = 0;
};

// They outlive the tests.
Backend Simulated(const char* name, World* world) {
  Backend backend;
  backend.name = name;
  backend.unused_address = [world] { return absl::StrCat("sim://server", ++world->addresses); };
  backend.foreign_addresses = {"shm:///tmp/x", "sim://", "nonsense", ""};
  backend.listen = [world](absl::string_view address, const TransportOptions&) {
    return world->network.Listen(address, /*party=*/0);
  };
  backend.create_endpoint = [world](absl::string_view,
                                    const TransportOptions&) -> absl::StatusOr<std::unique_ptr<Endpoint>> {
    return world->network.CreateEndpoint(/*party=*/1);
  };
  backend.clock = &world->clock;
  backend.idle = [world] {
    // No event is pending: time passes all the same.
    if (!world->scheduler.RunOne(world->scheduler.now_ns() + 1'000'000)) world->scheduler.Spend(1'000'000);
  };
  return backend;
}

Backend OnTwoHosts() {
  static World* const world = new World(/*local=*/false, /*served=*/false);
  return Simulated("remote", world);
}
Backend OnOneHost() {
  static World* const world = new World(/*local=*/true, /*served=*/false);
  return Simulated("local", world);
}
World* Sockets() {
  static World* const world = new World(/*local=*/false, /*served=*/true);
  return world;
}
Backend OverSockets() { return Simulated("sockets", Sockets()); }

std::string Name(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Sim, ConformanceTest, testing::Values(OnTwoHosts(), OnOneHost(), OverSockets()), Name);
INSTANTIATE_TEST_SUITE_P(Sim, AtomicConformanceTest, testing::Values(OnTwoHosts(), OnOneHost()), Name);
INSTANTIATE_TEST_SUITE_P(Sim, LocalConformanceTest, testing::Values(OnOneHost()), Name);

// READs that a process answers over sockets, where other backends use a device.
class ServedReadsTest : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Sim, ServedReadsTest, testing::Values(OverSockets()), Name);

TEST_P(ServedReadsTest, NothingIsReadOfAProcessThatIsStopped) {
  constexpr int64_t kStopNs = 5'000'000;
  Scheduler& scheduler = Sockets()->scheduler;
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 64);
  for (const bool is_under_way : {false, true}) {
    const int64_t begin_ns = scheduler.now_ns();
    if (!is_under_way) Sockets()->network.Stop(/*party=*/0, kStopNs);
    ASSERT_TRUE(pair.client->PostRead(1, std::vector<Sge>{{buffer->bytes().data(), 64}}, table_.address, table_.rkey));
    pair.client->Ring();
    if (is_under_way) Sockets()->network.Stop(/*party=*/0, kStopNs);
    ASSERT_EQ(Await(client.get(), Opcode::kRead).status, WcStatus::kSuccess);
    EXPECT_GE(scheduler.now_ns(), begin_ns + kStopNs);
  }
  // Expect: a stopped reader delays nothing, as the words are fetched elsewhere.
  const int64_t begin_ns = scheduler.now_ns();
  Sockets()->network.Stop(/*party=*/1, kStopNs);
  ASSERT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), 64, table_.address, table_.rkey),
            WcStatus::kSuccess);
  EXPECT_LT(scheduler.now_ns(), begin_ns + kStopNs);
}

}  // namespace

}  // namespace farlook::rdma::sim
