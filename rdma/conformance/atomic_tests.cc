// FETCH_ADD and COMPARE_SWAP, for backends that have them (Capabilities::atomics).
#include <memory>

#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

TEST_P(AtomicConformanceTest, AtomicsAddAndSwap) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.client->capabilities().atomics);
  auto buffer = NewBuffer(client.get(), 4096);
  auto* const old_value = static_cast<uint64_t*>(static_cast<void*>(buffer->bytes().data()));
  const uint64_t cell = counters_.address + 64;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.client->PostFetchAdd(i, old_value, cell, counters_.rkey, i));
    pair.client->Ring();
    const Event event = Await(client.get(), Opcode::kFetchAdd);
    EXPECT_EQ(event.wr_id, i);
    EXPECT_EQ(event.status, WcStatus::kSuccess);
    EXPECT_EQ(*old_value, i * (i == 0 ? 0 : i - 1) / 2);
  }
  // Expect: swaps when equal, and only then.
  ASSERT_TRUE(pair.client->PostCompareSwap(1, old_value, cell, counters_.rkey, 4950, 7));
  pair.client->Ring();
  EXPECT_EQ(Await(client.get(), Opcode::kCompareSwap).status, WcStatus::kSuccess);
  EXPECT_EQ(*old_value, 4950u);
  ASSERT_TRUE(pair.client->PostCompareSwap(2, old_value, cell, counters_.rkey, 4950, 8));
  pair.client->Ring();
  EXPECT_EQ(Await(client.get(), Opcode::kCompareSwap).status, WcStatus::kSuccess);
  EXPECT_EQ(*old_value, 7u);
  // Expect: a READ sees it.
  ASSERT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), 8, cell, counters_.rkey), WcStatus::kSuccess);
  EXPECT_EQ(*old_value, 7u);
}

TEST_P(AtomicConformanceTest, AtomicsOnReadOnlyMemoryFail) {
  StartServer();
  auto client = NewClient();
  struct {
    const char* what;
    uint64_t address;
    uint32_t rkey;
  } const kCases[] = {
      {"read-only", table_.address, table_.rkey},
      {"beyond", counters_.address + kCounterBytes, counters_.rkey},
      {"unaligned", counters_.address + 4, counters_.rkey},
      {"unknown key", counters_.address, counters_.rkey + 999},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.what);
    Pair pair = Connect(client.get());
    ASSERT_TRUE(pair.client->capabilities().atomics);
    auto buffer = NewBuffer(client.get(), 4096);
    auto* const old_value = static_cast<uint64_t*>(static_cast<void*>(buffer->bytes().data()));
    ASSERT_TRUE(pair.client->PostFetchAdd(1, old_value, c.address, c.rkey, 1));
    pair.client->Ring();
    EXPECT_NE(Await(client.get(), Opcode::kFetchAdd).status, WcStatus::kSuccess);
    Await(client.get(), Opcode::kDisconnected);
    Await(server_.get(), Opcode::kDisconnected, client.get());
  }
  EXPECT_EQ(absl::string_view(table_memory_->data(), 8), Pattern(0, 8));
}

}  // namespace
}  // namespace farlook::rdma::conformance
