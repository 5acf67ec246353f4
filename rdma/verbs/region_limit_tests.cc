// Offers of a listener on a device that pretends to have shorter memory regions: linked into the conformance test of
// verbs. See "One memory region for each range" in docs/design-notes.md.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/pretended_device.h"

namespace farlook::rdma::conformance {
namespace {

constexpr uint64_t kLongestRegion = uint64_t{2} << 20;

Backend ShortRegions() {
  Backend backend;
  backend.name = "verbs, short memory regions";
  backend.unused_address = UnusedTestAddress;
  return backend;
}

class RegionLimitTest : public ConformanceTest {
 protected:
  void SetUp() override {
    verbs::Pretence device;
    device.max_mr_size = kLongestRegion;
    verbs::Pretend(device);
    ConformanceTest::SetUp();
    StartServer();
  }
  void TearDown() override {
    ConformanceTest::TearDown();
    verbs::Pretend({});
  }

  static SharedMemory Memory(uint64_t bytes) {
    SharedMemoryOptions options;
    options.bytes = bytes;
    options.huge_pages = HugePages::kNone;
    return *SharedMemory::Create(options);
  }
};

TEST_P(RegionLimitTest, ARangeThatIsLongerThanARegionIsRefusedWithTheRemedy) {
  const SharedMemory longest = Memory(kLongestRegion), longer = Memory(kLongestRegion + 4096);
  EXPECT_TRUE(listener_->Offer(longest.range(), Access::kRemoteRead).ok());
  const absl::Status status = listener_->Offer(longer.range(), Access::kRemoteRead).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  for (const std::string& word : {absl::StrCat(kLongestRegion), absl::StrCat(kLongestRegion + 4096),
                                  std::string("max_mr_size"), std::string("--memory"), std::string("another device")}) {
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << word << " in: " << status;
  }
  // Expect: earlier offers are still served.
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096);
  EXPECT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), 4096, table_.address, table_.rkey),
            WcStatus::kSuccess);
}

TEST_P(RegionLimitTest, SoIsABuffer) {
  auto client = NewClient();
  const absl::Status status = client->get()->Allocate(kLongestRegion + 4096, /*readable_by_peers=*/false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "max_mr_size")) << status;
}

INSTANTIATE_TEST_SUITE_P(Verbs, RegionLimitTest, testing::Values(ShortRegions()),
                         [](const testing::TestParamInfo<Backend>&) { return std::string("Backend"); });

}  // namespace
}  // namespace farlook::rdma::conformance
