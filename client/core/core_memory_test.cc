// The memory of ClientCore, and the gets that wait for it.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/testing/core_testing.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

TEST_F(CoreTest, StaysWithinItsMemory) {
  Connect();
  std::vector<std::unique_ptr<OwnedOperation>> operations;
  for (int i = 0; i < 300; ++i) server_->Put(std::to_string(i), Pattern(1000));
  for (int i = 0; i < 300; ++i) operations.push_back(Start(Kind::kGet, std::to_string(i)));
  for (int i = 0; i < 300; ++i) operations.push_back(Start(Kind::kPut, std::to_string(i), Pattern(8000)));
  Poll();
  Poll();
  for (const auto& operation : operations) EXPECT_TRUE(operation->status().ok()) << operation->status();
  EXPECT_LE(core_->memory_bytes(), 1 << 20);
}

// Values too long for a flight's own memory and too short for reading in place.
TEST_F(CoreTest, GetsWaitForTheMemoryOfOthers) {
  Connect();
  for (int i = 0; i < 300; ++i) server_->Put(std::to_string(i), Pattern(5000 + i, i));
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  for (int i = 0; i < 300; ++i) gets.push_back(Start(Kind::kGet, std::to_string(i)));
  Operation* done[16];
  for (int round = 0; round < 100; ++round) {
    EXPECT_LE(core_->memory_bytes(), 1 << 20) << round;
    core_->Poll(absl::MakeSpan(done));
  }
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(gets[i]->status().ok()) << gets[i]->status();
    EXPECT_TRUE(gets[i]->result == Pattern(5000 + i, i)) << i;
  }
}

// Waiting gets end when they expire, when the connection is lost, or when gets of other lengths continue.
TEST_F(CoreTest, GetsThatWaitForMemoryEndToo) {
  network_.capabilities.any_local_memory = true;
  Connect();
  for (int i = 0; i < 100; ++i) server_->Put(std::to_string(i), Pattern(1500 << i % 4, i));
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<OwnedOperation>> gets;
    network_.hold_reads = round == 1 || round == 2;
    for (int i = 0; i < 100; ++i) gets.push_back(Start(Kind::kGet, std::to_string(i), "", round == 1 ? 10 : 1000));
    if (network_.hold_reads) {
      // The buckets arrive, the items do not.
      Poll();
      network_.ReleaseReads();
      Poll();
      if (round == 1) {
        clock_.AdvanceMs(20);
      } else {
        network_.Break();
      }
      Poll();
      network_.hold_reads = false;
      network_.ReleaseReads();
    }
    for (int i = 0; i < 50; ++i) {
      Poll();
      clock_.AdvanceMs(round == 2 ? 10 : 0);
    }
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(gets[i]->done()) << round << " " << i;
      if (round == 1) {
        EXPECT_EQ(gets[i]->code(), absl::StatusCode::kDeadlineExceeded);
      } else if (round != 2 || gets[i]->status().ok()) {
        EXPECT_TRUE(gets[i]->status().ok()) << gets[i]->status();
        EXPECT_TRUE(gets[i]->result == Pattern(1500 << i % 4, i)) << i;
      }
    }
  }
}

// Each has memory for the former item, and all need more for the present one.
TEST_F(CoreTest, GetsThatWaitForMoreMemoryHoldNone) {
  Connect();
  for (int i = 0; i < 100; ++i) server_->Put(std::to_string(i), Pattern(5000, i));
  std::vector<std::unique_ptr<OwnedOperation>> gets;
  network_.hold_reads = true;
  for (int i = 0; i < 100; ++i) gets.push_back(Start(Kind::kGet, std::to_string(i)));
  Poll();
  network_.ReleaseReads();  // of buckets
  Poll();
  for (int i = 0; i < 100; ++i) server_->Put(std::to_string(i), Pattern(10'000, i));
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(gets[i]->done()) << i;
    ASSERT_TRUE(gets[i]->status().ok()) << gets[i]->status();
    EXPECT_TRUE(gets[i]->result == Pattern(10'000, i)) << i;
  }
}

}  // namespace
}  // namespace farlook::client
