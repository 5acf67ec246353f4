// READs and atomics: every length, offset and split; nothing beyond the pieces; nothing that was not granted.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

std::unique_ptr<Buffer> NewBuffer(Queue* queue, size_t bytes, bool readable = false) {
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*queue)->Allocate(bytes, readable);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return nullptr;
  EXPECT_GE((*buffer)->bytes().size(), bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->bytes().data()) % 4096, 0u);
  EXPECT_EQ((*buffer)->remote().rkey != 0, readable);
  return *std::move(buffer);
}

TEST_P(ConformanceTest, ReadsOfEveryLengthAndOffset) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), kTableBytes);
  char* const to = buffer->bytes().data();
  for (uint32_t bytes = 1; bytes <= 300; ++bytes) {
    const uint64_t offset = 8 * (random_() % (kTableBytes / 8 - 64));
    memset(to, 0x55, bytes + 8);
    ASSERT_EQ(Read(client.get(), pair.client.get(), to, bytes, table_.address + offset, table_.rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(to, bytes), Pattern(offset, bytes)) << bytes << " at " << offset;
    ASSERT_EQ(absl::string_view(to + bytes, 8), std::string(8, 0x55)) << "wrote beyond " << bytes;
  }
  // Expect: the first and the last bytes, and all of them at once.
  for (const uint32_t bytes : {uint32_t{1}, uint32_t{8}, uint32_t{4096}, static_cast<uint32_t>(kTableBytes)}) {
    const uint64_t last = (kTableBytes - bytes) & ~uint64_t{7};
    ASSERT_EQ(Read(client.get(), pair.client.get(), to, bytes, table_.address + last, table_.rkey), WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(to, bytes), Pattern(last, bytes));
  }
}

TEST_P(ConformanceTest, ReadsFillThePiecesInOrder) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 64 * 1024);
  const size_t most = pair.client->capabilities().max_read_sges;
  for (int round = 0; round < 2000; ++round) {
    char* next = buffer->bytes().data();
    memset(next, 0x55, buffer->bytes().size());
    std::vector<Sge> pieces;
    uint64_t bytes = 0;
    for (size_t i = 0, count = 1 + random_() % most; i < count; ++i) {
      next += random_() % 9;  // any alignment, and a gap that must not be written to
      const uint32_t here = static_cast<uint32_t>(random_() % (round % 2 == 0 ? 20 : 500) + 1);
      pieces.push_back({next, here});
      next += here;
      bytes += here;
    }
    const uint64_t offset = 8 * (random_() % ((kTableBytes - bytes) / 8));
    const std::vector<Sge> posted = pieces;
    ASSERT_TRUE(pair.client->PostRead(1, pieces, table_.address + offset, table_.rkey));
    for (Sge& piece : pieces) piece = {nullptr, 0};  // Expect: the list was copied
    pair.client->Ring();
    ASSERT_EQ(Await(client.get(), Opcode::kRead).status, WcStatus::kSuccess);
    std::string expected(buffer->bytes().size(), 0x55);
    const std::string source = Pattern(offset, bytes);
    size_t taken = 0;
    for (const Sge& piece : posted) {
      expected.replace(static_cast<size_t>(piece.data - buffer->bytes().data()), piece.bytes,
                       source.substr(taken, piece.bytes));
      taken += piece.bytes;
    }
    ASSERT_EQ(memcmp(buffer->bytes().data(), expected.data(), expected.size()), 0) << "round " << round;
  }
}

TEST_P(ConformanceTest, ABatchOfReadsCompletesOnceEach) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr uint64_t kReads = 64;
  auto buffer = NewBuffer(client.get(), kReads * 128);
  for (uint64_t i = 0; i < kReads; ++i) {
    const Sge piece = {buffer->bytes().data() + i * 128, 128};
    ASSERT_TRUE(pair.client->PostRead(i, {&piece, 1}, table_.address + i * 1024, table_.rkey));
  }
  pair.client->Ring();
  std::vector<int> completed(kReads);
  ASSERT_TRUE(PumpUntil(client.get(), [&] { return client->events().size() >= kReads; }));
  for (const Event& event : client->events()) {
    ASSERT_EQ(event.status, WcStatus::kSuccess);
    ASSERT_LT(event.wr_id, kReads);
    ++completed[event.wr_id];
  }
  for (uint64_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(completed[i], 1);
    EXPECT_EQ(absl::string_view(buffer->bytes().data() + i * 128, 128), Pattern(i * 1024, 128));
  }
}

TEST_P(ConformanceTest, AFullSendQueueSaysSoAndEmpties) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096);
  const Sge piece = {buffer->bytes().data(), 8};
  const uint32_t depth = pair.client->capabilities().send_queue_depth;
  for (int round = 0; round < 3; ++round) {
    uint32_t posted = 0;
    while (pair.client->PostRead(posted, {&piece, 1}, table_.address, table_.rkey)) {
      ++posted;
      ASSERT_LE(posted, depth);
    }
    EXPECT_EQ(posted, depth);
    pair.client->Ring();
    ASSERT_TRUE(PumpUntil(client.get(), [&] { return client->events().size() >= posted; }));
    EXPECT_EQ(client->events().size(), posted);
    client->events().clear();
  }
}

TEST_P(ConformanceTest, PollStartsWhatWasNotRung) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096);
  const Sge piece = {buffer->bytes().data(), 8};
  ASSERT_TRUE(pair.client->PostRead(7, {&piece, 1}, table_.address, table_.rkey));
  pair.client->Ring();
  pair.client->Ring();  // Expect: harmless
  EXPECT_EQ(Await(client.get(), Opcode::kRead).wr_id, 7u);
}

// Such a READ fails, and as a failed work request breaks a queue pair, it breaks the connection: what came after it is
// flushed.
TEST_P(ConformanceTest, ReadsOutsideOfWhatWasGrantedFail) {
  StartServer();
  auto client = NewClient();
  auto buffer = NewBuffer(client.get(), 8192);
  struct {
    const char* what;
    uint64_t address;
    uint32_t bytes;
    uint32_t rkey;
  } const kCases[] = {
      {"one byte beyond", table_.address + kTableBytes - 8, 9, table_.rkey},
      {"begins beyond", table_.address + kTableBytes, 8, table_.rkey},
      {"far beyond", table_.address + (uint64_t{1} << 40), 8, table_.rkey},
      {"wraps around", table_.address - 8, 16, table_.rkey},
      {"wraps around the end", UINT64_MAX - 7, 16, table_.rkey},
      {"unknown key", table_.address, 8, table_.rkey + 12345},
      {"no key", table_.address, 8, 0},
      {"key that was not granted", hidden_.address, 8, hidden_.rkey},
  };
  for (const auto& c : kCases) {
    if (c.rkey == hidden_.rkey && !GetParam().grants_keys) continue;
    SCOPED_TRACE(c.what);
    Pair pair = Connect(client.get());
    const Sge good = {buffer->bytes().data(), 8};
    const Sge bad = {buffer->bytes().data() + 8, c.bytes};
    const Sge late = {buffer->bytes().data() + 4096, 8};
    memset(buffer->bytes().data(), 0x55, buffer->bytes().size());
    ASSERT_TRUE(pair.client->PostRead(1, {&good, 1}, table_.address, table_.rkey));
    ASSERT_TRUE(pair.client->PostRead(2, {&bad, 1}, c.address, c.rkey));
    ASSERT_TRUE(pair.client->PostRead(3, {&late, 1}, table_.address, table_.rkey));
    pair.client->Ring();
    ExpectEnd(client.get(), pair.client.get(), 3);
    for (const Event& event : client->events()) {
      EXPECT_EQ(event.status, event.wr_id == 1   ? WcStatus::kSuccess
                              : event.wr_id == 2 ? refused()
                                                 : WcStatus::kFlushed);
    }
    EXPECT_EQ(absl::string_view(bad.data, 8), std::string(8, 0x55)) << "bytes of a failed READ";
    client->events().clear();
    Await(server_.get(), Opcode::kDisconnected, client.get());
  }
}

// A backend that is not local makes none.
TEST_P(ConformanceTest, ReadsAtOnceFetchWhatPostedOnesFetch) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  if (!pair.client->capabilities().local) return;
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

TEST_P(ConformanceTest, ReadsAtOnceStopAtWhatWasNotGranted) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  if (!pair.client->capabilities().local) return;
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

// Words carry their own check, so that a torn one shows.
TEST_P(ConformanceTest, AlignedWordsAreNeverTorn) {
  if (GetParam().virtual_time) return;
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr size_t kWords = 16;
  auto* const words = static_cast<uint64_t*>(static_cast<void*>(table_memory_->data()));
  const auto checked = [](uint32_t value) {
    return uint64_t{value} << 32 | static_cast<uint32_t>(~value * 0x9e3779b1u);
  };
  for (size_t i = 0; i < kWords; ++i) words[i] = checked(0);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (uint32_t value = 1; !done.load(std::memory_order_relaxed); ++value) {
      for (size_t i = 0; i < kWords; ++i) {
        std::atomic_ref<uint64_t>(words[i]).store(checked(value), std::memory_order_release);
      }
    }
  });
  auto buffer = NewBuffer(client.get(), 4096);
  uint64_t last_first = 0;
  for (int round = 0; round < 100'000 && !HasFailure(); ++round) {
    EXPECT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), kWords * 8, table_.address, table_.rkey),
              WcStatus::kSuccess);
    uint64_t seen[kWords];
    memcpy(seen, buffer->bytes().data(), sizeof(seen));
    for (const uint64_t word : seen) EXPECT_EQ(word, checked(static_cast<uint32_t>(word >> 32)));
    const NowRead now = {static_cast<char*>(static_cast<void*>(seen)), table_.address, sizeof(seen)};
    const uint64_t posted_first = seen[0] >> 32;
    if (pair.client->ReadNow({&now, 1}, table_.rkey) == 1) {
      for (const uint64_t word : seen) EXPECT_EQ(word, checked(static_cast<uint32_t>(word >> 32)));
      EXPECT_GE(seen[0] >> 32, posted_first);
    }
    // Expect: READs posted one after the other never go back.
    EXPECT_GE(seen[0] >> 32, last_first);
    last_first = seen[0] >> 32;
  }
  done.store(true, std::memory_order_relaxed);
  writer.join();
}

TEST_P(ConformanceTest, TheServerReadsAClientsBuffer) {
  StartServer();
  auto client = NewClient();
  auto early = NewBuffer(client.get(), 100'000, /*readable=*/true);  // before there is a connection
  Pair pair = Connect(client.get());
  auto late = NewBuffer(client.get(), 5000, /*readable=*/true);
  auto landing = NewBuffer(server_.get(), 100'000);
  for (Buffer* buffer : {early.get(), late.get()}) {
    const std::string text = Pattern(buffer->remote().rkey * 8, buffer->bytes().size());
    memcpy(buffer->bytes().data(), text.data(), text.size());
    // The message that names a buffer must not come before the buffer can be read.
    ASSERT_TRUE(pair.client->PostSend("pull", ""));
    pair.client->Ring();
    Await(server_.get(), Opcode::kReceive, client.get());
    const RemoteRange& remote = buffer->remote();
    ASSERT_EQ(Read(server_.get(), pair.server.get(), landing->bytes().data(), 5000, remote.address, remote.rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(landing->bytes().data(), 5000), text.substr(0, 5000));
    ASSERT_EQ(Read(server_.get(), pair.server.get(), landing->bytes().data(), 104, remote.address + 4096 - 104 + 8,
                   remote.rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(landing->bytes().data(), 104), text.substr(4000, 104));
  }
}

TEST_P(ConformanceTest, ABufferThatIsGoneCannotBeRead) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096, /*readable=*/true);
  const RemoteRange remote = buffer->remote();
  auto landing = NewBuffer(server_.get(), 4096);
  buffer.reset();
  ASSERT_TRUE(pair.client->PostSend("gone", ""));
  pair.client->Ring();
  Await(server_.get(), Opcode::kReceive, client.get());
  // Expect: refused once the news is there; until then it may still be readable.
  WcStatus status = WcStatus::kSuccess;
  ASSERT_TRUE(PumpUntil(client.get(), [&] {
    status = Read(server_.get(), pair.server.get(), landing->bytes().data(), 8, remote.address, remote.rkey);
    return status != WcStatus::kSuccess;
  }));
  EXPECT_EQ(status, refused());
  Await(server_.get(), Opcode::kDisconnected, client.get());
}

TEST_P(ConformanceTest, BuffersOutsideOfTheirBoundsCannotBeRead) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096, /*readable=*/true);
  auto landing = NewBuffer(server_.get(), 8192);
  EXPECT_EQ(Read(server_.get(), pair.server.get(), landing->bytes().data(), 8192, buffer->remote().address,
                 buffer->remote().rkey),
            refused());
  Await(server_.get(), Opcode::kDisconnected, client.get());
  Await(client.get(), Opcode::kDisconnected);
}

TEST_P(ConformanceTest, BuffersComeAndGoWithoutEnd) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto landing = NewBuffer(server_.get(), 4096);
  for (int i = 0; i < 300; ++i) {
    auto buffer = NewBuffer(client.get(), 1 << 20, /*readable=*/true);
    ASSERT_NE(buffer, nullptr);
    const std::string text = absl::StrCat("value ", 100000 + i);
    memcpy(buffer->bytes().data(), text.data(), text.size());
    ASSERT_TRUE(pair.client->PostSend("pull", ""));
    pair.client->Ring();
    Await(server_.get(), Opcode::kReceive, client.get());
    ASSERT_EQ(Read(server_.get(), pair.server.get(), landing->bytes().data(), static_cast<uint32_t>(text.size()),
                   buffer->remote().address, buffer->remote().rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(landing->bytes().data(), text.size()), text);
  }
}

TEST_P(ConformanceTest, AtomicsAddAndSwap) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  if (!pair.client->capabilities().atomics) return;
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

TEST_P(ConformanceTest, AtomicsOnReadOnlyMemoryFail) {
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
    if (!pair.client->capabilities().atomics) return;
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

TEST_P(ConformanceTest, NoAtomicIsLostBetweenTwoClients) {
  if (GetParam().virtual_time) return;
  StartServer();
  auto first = NewClient();
  auto second = NewClient();
  Pair first_pair = Connect(first.get());
  Pair second_pair = Connect(second.get());
  if (!first_pair.client->capabilities().atomics) return;
  constexpr uint64_t kAdds = 20'000;
  const auto add = [&](Queue* queue, Connection* connection) {
    auto buffer = NewBuffer(queue, 4096);
    auto* const old_value = static_cast<uint64_t*>(static_cast<void*>(buffer->bytes().data()));
    for (uint64_t i = 0; i < kAdds; ++i) {
      ASSERT_TRUE(connection->PostFetchAdd(i, old_value, counters_.address, counters_.rkey, 1));
      connection->Ring();
      while (queue->events().empty()) queue->Pump();
      ASSERT_EQ(queue->events().front().status, WcStatus::kSuccess);
      queue->events().clear();
    }
  };
  std::thread other(add, second.get(), second_pair.client.get());
  add(first.get(), first_pair.client.get());
  other.join();
  auto* const cell = static_cast<uint64_t*>(static_cast<void*>(counter_memory_->data()));
  EXPECT_EQ(std::atomic_ref<uint64_t>(*cell).load(), 2 * kAdds);
}

TEST_P(ConformanceTest, BuffersHaveLimitsThatAreSaid) {
  StartServer();
  auto client = NewClient();
  EXPECT_FALSE((*client)->Allocate(0, false).ok());
  const absl::Status status = (*client)->Allocate(size_t{1} << 50, true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // Expect: what is full becomes free again.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*client)->Allocate(4096, true);
    while (buffer.ok() && buffers.size() < 10'000) {
      buffers.push_back(*std::move(buffer));
      buffer = (*client)->Allocate(4096, true);
    }
    EXPECT_GE(buffers.size(), 32u);
    if (!buffer.ok()) {
      EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
    }
  }
}

}  // namespace
}  // namespace farlook::rdma::conformance
