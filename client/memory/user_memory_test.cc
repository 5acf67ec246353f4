// Memory that the user registers: valid ranges, and their use by the core.
#include "client/memory/user_memory.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/testing/core_testing.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

using absl::StatusCode;

class UserMemoryTest : public CoreTest {
 protected:
  UserMemoryTest() {
    network_.capabilities.max_read_sges = 2;
    memory_.resize(200'000 / 8);
  }
  char* at(size_t offset) { return static_cast<char*>(static_cast<void*>(memory_.data())) + offset; }
  absl::Span<char> All() { return absl::MakeSpan(at(0), memory_.size() * 8); }

  // Starts a get into `buffer`. `*pieces`: of the READ of the item; 2 if the value is read directly into the buffer.
  std::unique_ptr<OwnedOperation> GetInto(absl::string_view key, absl::Span<char> buffer, uint64_t* pieces) {
    auto get = std::make_unique<OwnedOperation>(Kind::kGet, key);
    get->operation.to = {nullptr, buffer};
    const uint64_t before = network_.read_pieces, reads = network_.reads;
    core_->Start(&get->operation);
    Poll();
    *pieces = network_.read_pieces - before - (network_.reads - reads - 1);
    return get;
  }
  std::unique_ptr<OwnedOperation> PutFrom(absl::string_view key, absl::string_view value) {
    auto put = std::make_unique<OwnedOperation>(Kind::kPut, key);
    put->operation.value = value;
    core_->Start(&put->operation);
    Poll();
    return put;
  }

  std::vector<uint64_t> memory_;
};

TEST_F(UserMemoryTest, RangesDoNotOverlap) {
  const auto endpoint = network_.CreateEndpoint();
  UserMemory memory(endpoint.get());
  const auto code = [&](size_t from, size_t bytes) { return memory.Register(absl::MakeSpan(at(from), bytes)).code(); };
  EXPECT_EQ(code(1000, 1000), StatusCode::kOk);
  for (const auto& [from, bytes] : std::vector<std::pair<size_t, size_t>>{
           {1000, 1000}, {1000, 1}, {1999, 1}, {500, 501}, {0, 5000}, {1500, 5000}, {1001, 998}}) {
    EXPECT_EQ(code(from, bytes), StatusCode::kAlreadyExists) << from << " " << bytes;
  }
  EXPECT_EQ(code(2000, 3), StatusCode::kOk);
  EXPECT_EQ(code(999, 1), StatusCode::kOk);
  for (const auto& wrong : {absl::Span<char>(), absl::MakeSpan(at(0), 0), absl::Span<char>(nullptr, 5),
                            absl::Span<char>(at(0), SIZE_MAX), absl::Span<char>(at(0), SIZE_MAX / 2 + 1)}) {
    EXPECT_EQ(memory.Register(wrong).code(), StatusCode::kInvalidArgument) << wrong.size();
  }

  EXPECT_NE(memory.Find(at(1000), 1000), nullptr);
  EXPECT_NE(memory.Find(at(1999), 1), nullptr);
  for (const auto& [from, bytes] : std::vector<std::pair<size_t, size_t>>{
           {1000, 1001}, {998, 1}, {999, 2}, {2003, 0x1}, {1500, SIZE_MAX}, {0, 1}}) {
    EXPECT_EQ(memory.Find(at(from), bytes), nullptr) << from << " " << bytes;
  }

  EXPECT_EQ(memory.Unregister(at(1001)).code(), StatusCode::kNotFound);
  EXPECT_EQ(memory.Unregister(nullptr).code(), StatusCode::kNotFound);
  {
    const auto held = memory.Find(at(1500), 1);
    EXPECT_EQ(memory.Unregister(at(1000)).code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(memory.Unregister(at(1000)).code(), StatusCode::kOk);
  EXPECT_EQ(memory.Unregister(at(1000)).code(), StatusCode::kNotFound);
  EXPECT_EQ(memory.Find(at(1500), 1), nullptr);
  EXPECT_EQ(code(1100, 100), StatusCode::kOk);
}

TEST_F(UserMemoryTest, ValuesLandInIt) {
  Connect();
  server_->Put("key", Pattern(100'000));
  ASSERT_TRUE(core_->user_memory()->Register(All()).ok());
  uint64_t pieces = 0;
  for (const size_t offset : {0, 1, 7, 4096, 100'000}) {
    auto get = GetInto("key", absl::MakeSpan(at(offset), 100'000), &pieces);
    ASSERT_TRUE(get->status().ok()) << get->status();
    EXPECT_EQ(pieces, 2u) << offset;
    EXPECT_EQ(get->operation.value_bytes, 100'000u);
    EXPECT_TRUE(absl::string_view(at(offset), 100'000) == Pattern(100'000)) << offset;
  }
  // Expect: if the buffer is too short, the length is returned, and nothing behind the buffer changes.
  std::fill(at(0), at(100'001), 'x');
  auto cut = GetInto("key", absl::MakeSpan(at(0), 99'999), &pieces);
  EXPECT_EQ(cut->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(cut->operation.value_bytes, 100'000u);
  EXPECT_EQ(*at(99'999), 'x');
  // Expect: the value is copied into a buffer that is registered in part, or not at all.
  ASSERT_TRUE(core_->user_memory()->Unregister(at(0)).ok());
  for (const size_t bytes : {0, 99'999}) {
    if (bytes != 0) {
      ASSERT_TRUE(core_->user_memory()->Register(absl::MakeSpan(at(0), bytes)).ok());
    }
    auto get = GetInto("key", absl::MakeSpan(at(0), 100'000), &pieces);
    ASSERT_TRUE(get->status().ok()) << get->status();
    EXPECT_EQ(pieces, 1u);
    EXPECT_TRUE(absl::string_view(at(0), 100'000) == Pattern(100'000));
  }
}

TEST_F(UserMemoryTest, ValuesArePulledFromIt) {
  Connect();
  ASSERT_TRUE(core_->user_memory()->Register(All()).ok());
  const std::string value = Pattern(100'000);
  for (const size_t offset : {0, 8, 4, 4096, 1}) {
    std::copy(value.begin(), value.end(), at(offset));
    network_.hold_requests = true;
    const uint64_t before = core_->memory_bytes();
    auto put = PutFrom("key", absl::string_view(at(offset), value.size()));
    // Expect: a copy is made only if peers could not read the original.
    EXPECT_EQ(core_->memory_bytes() == before, offset % 8 == 0) << offset;
    network_.hold_requests = false;
    network_.ReleaseRequests();
    Poll();
    ASSERT_TRUE(put->status().ok()) << put->status();
    EXPECT_TRUE(Get("key") == value) << offset;
  }
  ExpectNoViolations();
}

// The user may unmap the memory after Unregister() has succeeded.
TEST_F(UserMemoryTest, WhatIsInUseStays) {
  Connect();
  server_->Put("key", Pattern(100'000));
  ASSERT_TRUE(core_->user_memory()->Register(All()).ok());
  network_.hold_reads = true;
  uint64_t pieces = 0;
  auto get = GetInto("key", absl::MakeSpan(at(0), 100'000), &pieces);
  network_.ReleaseReads();  // of the bucket
  Poll();
  ASSERT_FALSE(get->done());
  EXPECT_EQ(core_->user_memory()->Unregister(at(0)).code(), StatusCode::kFailedPrecondition);
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  ASSERT_TRUE(get->status().ok()) << get->status();

  // A put that ended by its deadline, and that the server may be about to pull.
  network_.hold_requests = true;
  auto put = std::make_unique<OwnedOperation>(Kind::kPut, "other");
  put->operation.value = absl::string_view(at(0), 50'000);
  put->operation.timeout_ms = 10;
  core_->Start(&put->operation);
  Poll();
  EXPECT_EQ(core_->user_memory()->Unregister(at(0)).code(), StatusCode::kFailedPrecondition);
  clock_.AdvanceMs(20);
  Poll();
  ASSERT_EQ(put->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->user_memory()->Unregister(at(0)).code(), StatusCode::kFailedPrecondition);
  network_.hold_requests = false;
  network_.ReleaseRequests();
  Poll();
  EXPECT_EQ(core_->user_memory()->Unregister(at(0)).code(), StatusCode::kOk);
}

// A get that exceeds its deadline ends only when nothing can be written to its buffer any more.
TEST_F(UserMemoryTest, NothingLandsAfterTheEnd) {
  Connect();
  server_->Put("key", Pattern(100'000));
  ASSERT_TRUE(core_->user_memory()->Register(All()).ok());
  network_.hold_reads = true;
  uint64_t pieces = 0;
  auto get = GetInto("key", absl::MakeSpan(at(0), 100'000), &pieces);
  network_.ReleaseReads();
  for (int i = 0; i < 5000 && !get->done(); ++i) {
    clock_.AdvanceMs(1);
    Poll();
  }
  ASSERT_EQ(get->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(core_->user_memory()->Unregister(at(0)).code(), StatusCode::kOk);
  std::fill(at(0), at(100'000), 'x');
  network_.hold_reads = false;
  network_.ReleaseReads();
  Poll();
  EXPECT_EQ(std::count(at(0), at(100'000), 'x'), 100'000);
}

TEST_F(UserMemoryTest, ItHasAnotherKeyOnAnotherConnection) {
  Connect();
  ASSERT_TRUE(core_->user_memory()->Register(All()).ok());
  const std::string value = Pattern(50'000);
  std::copy(value.begin(), value.end(), at(8));
  network_.hold_requests = true;
  auto put = PutFrom("key", absl::string_view(at(8), value.size()));
  network_.ChangeKeys();
  network_.Break();
  network_.hold_requests = false;
  PollFor(1000, put->operation);
  ASSERT_TRUE(put->status().ok()) << put->status();
  EXPECT_TRUE(Get("key") == value);
  ExpectNoViolations();
}

}  // namespace
}  // namespace farlook::client
