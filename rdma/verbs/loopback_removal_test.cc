// A listener's own atomics after its device was removed and returned: memory that was offered before has another key
// then. On a device of tests/vm that has atomics.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {
namespace {

bool Shell(const std::string& command) { return std::system(command.c_str()) == 0; }

// Soft-RoCE is removed only after all users have closed it, so the listener has closed it when `rdma link delete`
// returns.
void TakeAwayAndBringBack(const std::string& device, Listener* listener) {
  std::string interface;
  std::ifstream(absl::StrCat("/sys/class/infiniband/", device, "/parent")) >> interface;
  ASSERT_NE(interface, "");
  std::atomic<bool> done{false};
  bool back = false;
  std::thread remover([&] {
    back = Shell(absl::StrCat("timeout 60 rdma link delete ", device)) &&
           Shell(absl::StrCat("rdma link add ", device, " type rxe netdev ", interface));
    done = true;
  });
  // Each may take a minute: the device to be removed, and the listener to find it again.
  for (int look = 0; look < 12'000 && (!done || (back && !listener->status().ok())); ++look) {
    listener->Next();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  remover.join();
  ASSERT_TRUE(back);
  ASSERT_TRUE(listener->status().ok()) << listener->status();
}

TEST(LoopbackRemovalTest, OneThatIsAskedForAfterTheDeviceCameBackReachesWhatWasOfferedBefore) {
  const char* const device = std::getenv("FARLOOK_RDMA_DEVICE");
  ASSERT_NE(device, nullptr);
  SharedMemoryOptions options;
  options.bytes = 1 << 20;
  options.huge_pages = HugePages::kNone;
  options.access = Access::kRemoteReadAtomic;
  auto memory = SharedMemory::Create(options);
  ASSERT_TRUE(memory.ok()) << memory.status();
  auto listener = Listen(UnusedTestAddress());
  ASSERT_TRUE(listener.ok()) << listener.status();
  ASSERT_EQ((*listener)->atomic_domain(), AtomicDomain::kDevice);
  const absl::StatusOr<RemoteRange> range = (*listener)->Offer(memory->range(), Access::kRemoteReadAtomic);
  ASSERT_TRUE(range.ok()) << range.status();
  for (uint64_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    auto loopback = (*listener)->ConnectToItself(*range);
    ASSERT_TRUE(loopback.ok()) << loopback.status();
    uint64_t old_value = ~uint64_t{0};
    const absl::Status added = (*loopback)->FetchAdd(range->address + 64, 1, &old_value);
    EXPECT_TRUE(added.ok()) << added;
    EXPECT_EQ(old_value, round);
    ASSERT_NO_FATAL_FAILURE(TakeAwayAndBringBack(device, listener->get()));
  }
}

}  // namespace
}  // namespace farlook::rdma::verbs
