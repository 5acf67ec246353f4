// A server's own atomics, for backends whose device executes them (AtomicDomain::kDevice).
#include <memory>
#include <thread>
#include <vector>

#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

TEST_P(LoopbackConformanceTest, AddsSwapsAndReads) {
  StartServer();
  auto loopback = listener_->ConnectToItself(counters_);
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  const uint64_t cell = counters_.address + 128;
  uint64_t old_value = 1;
  ASSERT_TRUE((*loopback)->FetchAdd(cell, 7, &old_value).ok());
  EXPECT_EQ(old_value, 0u);
  ASSERT_TRUE((*loopback)->CompareSwap(cell, 7, 100, &old_value).ok());
  EXPECT_EQ(old_value, 7u);
  ASSERT_TRUE((*loopback)->CompareSwap(cell, 7, 200, &old_value).ok());
  EXPECT_EQ(old_value, 100u) << "swaps when equal, and only then";
  ASSERT_TRUE((*loopback)->Read(cell, &old_value).ok());
  EXPECT_EQ(old_value, 100u);
  // Expect: threads take turns.
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      uint64_t ignored;
      for (int j = 0; j < 300; ++j) EXPECT_TRUE((*loopback)->FetchAdd(cell, 1, &ignored).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE((*loopback)->Read(cell, &old_value).ok());
  EXPECT_EQ(old_value, 1000u);
}

TEST_P(LoopbackConformanceTest, WhatFailsFailsAtOnceForAWhileAndThenWorksAgain) {
  StartServer();
  auto loopback = listener_->ConnectToItself(counters_);
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  uint64_t old_value = 1;
  // Not in the range.
  EXPECT_FALSE((*loopback)->FetchAdd(counters_.address + kCounterBytes, 1, &old_value).ok());
  const absl::Status status = (*loopback)->Read(counters_.address, &old_value);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(PumpUntil(nullptr, [&] { return (*loopback)->Read(counters_.address, &old_value).ok(); }));
  EXPECT_EQ(old_value, 0u);
}

TEST_P(LoopbackConformanceTest, ARangeThatIsNotOfferedForAtomicsIsAnError) {
  StartServer();
  auto loopback = listener_->ConnectToItself(table_);
  ASSERT_TRUE(loopback.ok()) << "it may be read: " << loopback.status();
  uint64_t old_value;
  EXPECT_FALSE((*loopback)->FetchAdd(table_.address, 1, &old_value).ok());
  RemoteRange unknown = counters_;
  unknown.rkey += 999;
  EXPECT_EQ(listener_->ConnectToItself(unknown).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farlook::rdma::conformance
