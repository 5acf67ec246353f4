// What a listener offers on a device whose memory regions are shorter than that: linked into the conformance test of
// verbs. The device pretends that they are of 2 MiB; a range of 4 MiB and some is five regions then.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/shared_memory.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/pretended_device.h"

namespace farlook::rdma::conformance {
namespace {

constexpr uint64_t kStride = verbs::kMaxReadBytes;
constexpr uint64_t kLongestRegion = verbs::kMaxReadBytes + kStride;
constexpr uint64_t kBytes = 4 * kStride + 8192;

Backend ShortRegions() {
  Backend backend;
  backend.name = "verbs, short memory regions";
  backend.unused_address = UnusedTestAddress;
  return backend;
}

class SplitRangeTest : public ConformanceTest {
 protected:
  void SetUp() override {
    verbs::Pretence device;
    device.max_mr_size = kLongestRegion;
    verbs::Pretend(device);
    ConformanceTest::SetUp();
    StartServer();
    memory_ = Memory(kBytes);
    const std::string pattern = Pattern(0, kBytes);
    memcpy(memory_->data(), pattern.data(), kBytes);
    absl::StatusOr<RemoteRange> range = listener_->Offer(memory_->range(), Access::kRemoteReadAtomic);
    ASSERT_TRUE(range.ok()) << range.status();
    EXPECT_EQ(range->bytes, kBytes);
    table_ = counters_ = *range;  // what Connect() grants
  }
  void TearDown() override {
    ConformanceTest::TearDown();
    verbs::Pretend({});
  }

  static std::unique_ptr<SharedMemory> Memory(uint64_t bytes) {
    SharedMemoryOptions options;
    options.bytes = bytes;
    options.huge_pages = HugePages::kNone;
    options.access = Access::kRemoteReadAtomic;
    return std::make_unique<SharedMemory>(*SharedMemory::Create(options));
  }

  std::unique_ptr<SharedMemory> memory_;
};

TEST_P(SplitRangeTest, ReadsAreRightWhereverRegionsMeet) {
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), verbs::kMaxReadBytes);
  for (uint64_t meet = 0; meet <= 4 * kStride; meet += kStride) {
    for (const int64_t from : {-4096, -8, 0, 8}) {
      const uint64_t offset = meet + static_cast<uint64_t>(from);
      if (offset >= kBytes) continue;  // before the beginning
      for (const uint64_t longest : {uint64_t{8}, uint64_t{8192}, verbs::kMaxReadBytes}) {
        const uint64_t bytes = std::min(longest, kBytes - offset);
        ASSERT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), static_cast<uint32_t>(bytes),
                       table_.address + offset, table_.rkey),
                  WcStatus::kSuccess)
            << bytes << " bytes at " << offset;
        ASSERT_EQ(memcmp(buffer->bytes().data(), memory_->data() + offset, bytes), 0)
            << bytes << " bytes at " << offset;
      }
    }
  }
  EXPECT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), 16, table_.address + kBytes - 8, table_.rkey),
            refused());
}

TEST_P(SplitRangeTest, TheServerPullsToWhereRegionsMeet) {
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 8192, /*readable=*/true);
  const std::string value = Pattern(12345 * 8, 8192);
  memcpy(buffer->bytes().data(), value.data(), value.size());
  for (uint64_t meet = kStride; meet <= 4 * kStride; meet += kStride) {
    char* const to = memory_->data() + meet - 4096;
    ASSERT_EQ(Read(server_.get(), pair.server.get(), to, 8192, buffer->remote().address, buffer->remote().rkey),
              WcStatus::kSuccess)
        << meet;
    EXPECT_EQ(memcmp(to, value.data(), value.size()), 0) << meet;
  }
}

TEST_P(SplitRangeTest, AtomicsOfClientsAndOfTheServerFindTheirRegion) {
  auto loopback = listener_->ConnectToItself(counters_);
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 8);
  auto* const old_value = static_cast<uint64_t*>(static_cast<void*>(buffer->bytes().data()));
  for (uint64_t offset = 64; offset < kBytes; offset += kStride) {
    ASSERT_TRUE(pair.client->PostFetchAdd(offset, old_value, counters_.address + offset, counters_.rkey, 1));
    pair.client->Ring();
    ASSERT_EQ(Await(client.get(), Opcode::kFetchAdd).status, WcStatus::kSuccess) << offset;
    EXPECT_EQ(*old_value, PatternWord(offset));
    uint64_t value = 0;
    ASSERT_TRUE((*loopback)->FetchAdd(counters_.address + offset, 1, &value).ok()) << offset;
    EXPECT_EQ(value, PatternWord(offset) + 1);
    ASSERT_TRUE((*loopback)->Read(counters_.address + offset, &value).ok()) << offset;
    EXPECT_EQ(value, PatternWord(offset) + 2);
  }
}

TEST_P(SplitRangeTest, WhatTakesTooManyRegionsIsRefusedWithTheRemedy) {
  std::unique_ptr<SharedMemory> more = Memory(9 * kStride);
  const absl::Status status = listener_->Offer(more->range(), Access::kRemoteRead).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "max_mr_size")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "8388608 bytes at most (--memory)")) << status;
  // Two ranges the handshake has room for.
  std::unique_ptr<SharedMemory> second = Memory(3 * kStride);
  EXPECT_TRUE(listener_->Offer(second->range(), Access::kRemoteRead).ok());
  EXPECT_EQ(listener_->Offer(second->range(), Access::kRemoteRead).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(SplitRangeTest, RegionsBeginAtPages) {
  SharedRange range = memory_->range();
  range.base += 8;
  range.bytes -= 8;
  EXPECT_EQ(listener_->Offer(range, Access::kRemoteRead).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Verbs, SplitRangeTest, testing::Values(ShortRegions()),
                         [](const testing::TestParamInfo<Backend>&) { return std::string("Backend"); });

}  // namespace
}  // namespace farlook::rdma::conformance
