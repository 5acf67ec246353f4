// Mapped memory of the peer, which only a backend on the same machine has (Capabilities::local).
#include <cstring>
#include <memory>
#include <string>

#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

// A backend that is not local has none.
TEST_P(LocalConformanceTest, WhatIsMappedIsWhatReadsFetch) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->capabilities().local);
  for (uint64_t bytes : {uint64_t{1}, uint64_t{8}, uint64_t{300}, uint64_t{kTableBytes}}) {
    const uint64_t offset = bytes == kTableBytes ? 0 : 8 * (random_() % (kTableBytes / 8 - 64));
    const char* const mapped = pair.client->Mapped(table_.address + offset, bytes, table_.rkey);
    ASSERT_NE(mapped, nullptr);
    EXPECT_TRUE(absl::string_view(mapped, bytes) == Pattern(offset, bytes)) << bytes;
  }
  // Expect: no completion reports it.
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(client->Pump(), 0u);
}

TEST_P(LocalConformanceTest, WhatWasNotGrantedIsNotMapped) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->capabilities().local);
  struct Range {
    uint64_t address, bytes;
  };
  const Range kBad[] = {
      {table_.address + kTableBytes - 8, 9},        // one byte beyond
      {table_.address + kTableBytes, 8},            // begins beyond
      {table_.address + (uint64_t{1} << 40), 8},    // far beyond
      {table_.address - 8, 16},                     // wraps around
      {UINT64_MAX - 7, 16},                         // wraps around the end
      {table_.address, uint64_t{kTableBytes} + 1},  // too long
      {table_.address, UINT64_MAX},                 // far too long
      {table_.address + 4, 8},                      // unaligned
  };
  for (const Range& bad : kBad) {
    EXPECT_EQ(pair.client->Mapped(bad.address, bad.bytes, table_.rkey), nullptr) << bad.bytes << " at " << bad.address;
  }
  for (const uint32_t rkey : {uint32_t{0}, table_.rkey + 12345, hidden_.rkey}) {
    EXPECT_EQ(pair.client->Mapped(table_.address, 8, rkey), nullptr);
  }
  // Expect: unlike a posted READ, none of them broke the connection.
  EXPECT_TRUE(pair.client->alive());
  EXPECT_NE(pair.client->Mapped(table_.address, 8, table_.rkey), nullptr);
  pair.client->Disconnect();
  EXPECT_EQ(pair.client->Mapped(table_.address, 8, table_.rkey), nullptr);
}

}  // namespace
}  // namespace farlook::rdma::conformance
