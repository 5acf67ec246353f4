// Reads at once, which only a backend on the same machine makes (Capabilities::local).
#include <cstring>
#include <memory>
#include <string>

#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

// A backend that is not local makes none.
TEST_P(LocalConformanceTest, ReadsAtOnceFetchWhatPostedOnesFetch) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->capabilities().local);
  for (uint32_t bytes = 1; bytes <= 300; ++bytes) {
    // Expect: many at once, each in its own place and nothing beyond, in memory that is not registered.
    constexpr size_t kReads = 5, kPlaceBytes = 320;
    alignas(8) char to[kReads * kPlaceBytes];
    memset(to, 0x55, sizeof to);
    NowRead reads[kReads];
    for (size_t i = 0; i < kReads; ++i) {
      reads[i] = {to + i * kPlaceBytes, table_.address + 8 * (random_() % (kTableBytes / 8 - 64)), bytes};
      pair.client->Prefetch(reads[i].remote_address, bytes, table_.rkey);
    }
    ASSERT_EQ(pair.client->ReadNow(reads, table_.rkey), kReads);
    for (const NowRead& read : reads) {
      ASSERT_EQ(absl::string_view(read.to, bytes), Pattern(read.remote_address - table_.address, bytes));
      ASSERT_EQ(absl::string_view(read.to + bytes, 8), std::string(8, 0x55)) << "wrote beyond " << bytes;
    }
  }
  auto all = NewBuffer(client.get(), kTableBytes);
  const NowRead whole = {all->bytes().data(), table_.address, static_cast<uint32_t>(kTableBytes)};
  ASSERT_EQ(pair.client->ReadNow({&whole, 1}, table_.rkey), 1u);
  EXPECT_TRUE(absl::string_view(whole.to, kTableBytes) == Pattern(0, kTableBytes));
  // Expect: no completion tells of them.
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(client->Pump(), 0u);
}

TEST_P(LocalConformanceTest, ReadsAtOnceStopAtWhatWasNotGranted) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->capabilities().local);
  alignas(8) char to[32];
  const NowRead good = {to, table_.address, 8};
  const NowRead kBad[] = {
      {to + 8, table_.address + kTableBytes - 8, 9},        // one byte beyond
      {to + 8, table_.address + kTableBytes, 8},            // begins beyond
      {to + 8, table_.address + (uint64_t{1} << 40), 8},    // far beyond
      {to + 8, table_.address - 8, 16},                     // wraps around
      {to + 8, UINT64_MAX - 7, 16},                         // wraps around the end
      {to + 8, table_.address, uint32_t{kTableBytes} + 1},  // too long
      {to + 8, table_.address + 4, 8},                      // unaligned
  };
  for (const NowRead& bad : kBad) {
    memset(to, 0x55, sizeof to);
    const NowRead reads[] = {good, bad, {to + 24, table_.address, 8}};
    pair.client->Prefetch(bad.remote_address, bad.bytes, table_.rkey);
    EXPECT_EQ(pair.client->ReadNow(reads, table_.rkey), 1u) << bad.bytes << " at " << bad.remote_address;
    EXPECT_EQ(absl::string_view(to, 8), Pattern(0, 8));
    EXPECT_EQ(absl::string_view(to + 8, 24), std::string(24, 0x55));
  }
  for (const uint32_t rkey : {uint32_t{0}, table_.rkey + 12345, hidden_.rkey}) {
    pair.client->Prefetch(table_.address, 8, rkey);
    EXPECT_EQ(pair.client->ReadNow({&good, 1}, rkey), 0u);
  }
  // Expect: unlike a posted one, none of them broke the connection.
  EXPECT_TRUE(pair.client->alive());
  EXPECT_EQ(pair.client->ReadNow({&good, 1}, table_.rkey), 1u);
  pair.client->Disconnect();
  EXPECT_EQ(pair.client->ReadNow({&good, 1}, table_.rkey), 0u);
}

}  // namespace
}  // namespace farlook::rdma::conformance
