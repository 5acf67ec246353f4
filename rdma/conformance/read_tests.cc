// Posted READs: every length, offset and split; nothing beyond the pieces; nothing that was not granted.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

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

TEST_P(ConformanceTest, RingingTwiceIsHarmless) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096);
  const Sge piece = {buffer->bytes().data(), 8};
  ASSERT_TRUE(pair.client->PostRead(7, {&piece, 1}, table_.address, table_.rkey));
  pair.client->Ring();
  pair.client->Ring();
  EXPECT_EQ(Await(client.get(), Opcode::kRead).wr_id, 7u);
}

// Some of the SENDs request a completion, and may complete before the READ does.
TEST_P(ConformanceTest, AReadIsReportedThatSendsWerePostedAfter) {
  Reader reader = NewReader();
  const Sge piece = {reader.to, 64};
  uint64_t sent = 0, received = 0;
  for (uint64_t round = 1; round <= 200; ++round) {
    ASSERT_TRUE(reader.pair.client->PostRead(round, {&piece, 1}, table_.address, table_.rkey));
    for (int i = 0; i < 20; ++i) {
      const std::string message = std::to_string(++sent);
      ASSERT_TRUE(PumpUntil(reader.client.get(), [&] { return reader.pair.client->PostSend(message, ""); }));
    }
    reader.pair.client->Ring();
    const Event event = Await(reader.client.get(), Opcode::kRead);
    ASSERT_EQ(event.wr_id, round) << reader.pair.client->status();
    ASSERT_EQ(event.status, WcStatus::kSuccess);
    while (received < sent) {
      ASSERT_EQ(Await(server_.get(), Opcode::kReceive, reader.client.get()).message, std::to_string(++received));
    }
  }
}

// Enough checks for any READ to complete.
constexpr uint32_t kManyLooks = 10'000'000;

TEST_P(ConformanceTest, AReadAtOnceIsDoneOrPostedOrLeftAlone) {
  Reader reader = NewReader();
  int done = 0;
  for (uint64_t round = 1; round <= 300; ++round) {
    const auto bytes = static_cast<uint32_t>(random_() % 300 + 1);
    const uint64_t offset = 8 * (random_() % (kTableBytes / 8 - 64));
    memset(reader.to, 0x55, bytes + 8);
    const AtOnce how = reader.pair.client->ReadAtOnce(round, {reader.to, bytes}, table_.address + offset, table_.rkey,
                                                      round % 3 == 0 ? 1 : kManyLooks);
    if (how == AtOnce::kPosted) {
      const Event event = Await(reader.client.get(), Opcode::kRead);
      ASSERT_EQ(event.wr_id, round);
      ASSERT_EQ(event.connection, reader.pair.client.get());
      ASSERT_EQ(event.status, WcStatus::kSuccess);
    }
    done += how == AtOnce::kDone;
    ASSERT_EQ(absl::string_view(reader.to, bytes),
              how == AtOnce::kNo ? std::string(bytes, 0x55) : Pattern(offset, bytes));
    ASSERT_EQ(absl::string_view(reader.to + bytes, 8), std::string(8, 0x55)) << "wrote beyond " << bytes;
  }
  // Expect: no other completion of any of them, and READs still work.
  ASSERT_EQ(Read(reader.client.get(), reader.pair.client.get(), reader.to, 64, table_.address, table_.rkey),
            WcStatus::kSuccess);
  EXPECT_TRUE(reader.client->events().empty());
  EXPECT_EQ(done > 0, reader.pair.client->capabilities().reads_at_once);
}

TEST_P(ConformanceTest, NoReadIsDoneAtOnceWhileOthersAreUnderWay) {
  Reader reader = NewReader();
  const Sge piece = {reader.to, 64};
  ASSERT_TRUE(reader.pair.client->PostRead(1, {&piece, 1}, table_.address, table_.rkey));
  EXPECT_EQ(reader.pair.client->ReadAtOnce(2, {reader.to + 64, 64}, table_.address, table_.rkey, kManyLooks),
            AtOnce::kNo);
  reader.pair.client->Ring();
  EXPECT_EQ(reader.pair.client->ReadAtOnce(2, {reader.to + 64, 64}, table_.address, table_.rkey, kManyLooks),
            AtOnce::kNo);
  EXPECT_EQ(Await(reader.client.get(), Opcode::kRead).wr_id, 1u);
}

// A caller that reads at once sees neither messages nor the end, but loses none of them either.
TEST_P(ConformanceTest, WhatComesWhileAReadIsLookedForIsPolledLater) {
  Reader reader = NewReader();
  constexpr uint64_t kBurst = 8;
  uint64_t posted = 0, completed = 0, received = 0;
  for (uint64_t round = 1; round <= 200; ++round) {
    reader.client->Pump();  // releases delivered messages, so that only the READ is left to wait for
    for (uint64_t i = 0; i < kBurst; ++i) {
      ASSERT_TRUE(reader.pair.server->PostSend(std::to_string((round - 1) * kBurst + i + 1), ""));
    }
    reader.pair.server->Ring();
    // Until one of the messages has interrupted it.
    AtOnce how = AtOnce::kDone;
    for (uint64_t i = 0; i < 20 && how == AtOnce::kDone; ++i) {
      how = reader.pair.client->ReadAtOnce(round, {reader.to, 64}, table_.address, table_.rkey, kManyLooks);
    }
    posted += how == AtOnce::kPosted;
    ASSERT_TRUE(PumpUntil(reader.client.get(),
                          [&] {
                            for (; !reader.client->events().empty(); reader.client->events().pop_front()) {
                              const Event& event = reader.client->events().front();
                              completed += event.opcode == Opcode::kRead && event.status == WcStatus::kSuccess;
                              if (event.opcode != Opcode::kReceive) continue;
                              EXPECT_EQ(event.message, std::to_string(++received));
                            }
                            return received == round * kBurst && completed == posted;
                          }))
        << "round " << round << ": " << received << " messages, " << completed << " of " << posted << " READs; "
        << reader.pair.client->status() << "; " << reader.pair.server->status();
  }
  EXPECT_EQ(posted > 0, reader.pair.client->capabilities().reads_at_once);
}

// SENDs posted before request no completion, and the READ does not free their places.
TEST_P(ConformanceTest, ReadsAtOnceBetweenSendsLeaveRoomForMore) {
  Reader reader = NewReader();
  const uint64_t rounds = 3 * reader.pair.client->capabilities().send_queue_depth + 1000;
  for (uint64_t round = 1; round <= rounds; ++round) {
    ASSERT_TRUE(reader.pair.client->PostSend(std::to_string(round), std::string(round % 2 * 200, 'x')));
    reader.pair.client->Ring();
    if (reader.pair.client->ReadAtOnce(round, {reader.to, 64}, table_.address, table_.rkey, kManyLooks) ==
        AtOnce::kPosted) {
      EXPECT_EQ(Await(reader.client.get(), Opcode::kRead).wr_id, round);
    }
    ASSERT_EQ(
        Await(server_.get(), Opcode::kReceive, reader.client.get()).message.substr(0, std::to_string(round).size()),
        std::to_string(round));
  }
}

TEST_P(ConformanceTest, AReadAtOnceOfWhatWasNotGrantedBreaksTheConnection) {
  Reader reader = NewReader();
  if (!reader.pair.client->capabilities().reads_at_once) return;
  ASSERT_EQ(reader.pair.client->ReadAtOnce(7, {reader.to, 64}, table_.address, table_.rkey + 0x1000, kManyLooks),
            AtOnce::kPosted);
  const Event event = Await(reader.client.get(), Opcode::kRead);
  EXPECT_EQ(event.wr_id, 7u);
  EXPECT_EQ(event.status, refused());
  Await(reader.client.get(), Opcode::kDisconnected);
  EXPECT_EQ(reader.pair.client->ReadAtOnce(8, {reader.to, 64}, table_.address, table_.rkey, kManyLooks), AtOnce::kNo);
}

// Such a READ fails. As a failed work request breaks a queue pair, it breaks the connection: later work is flushed.
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
  };
  for (const auto& c : kCases) {
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

TEST_P(ConformanceTest, AKeyThatWasNotGrantedIsOfNoUse) {
  StartServer();
  auto client = NewClient();
  auto buffer = NewBuffer(client.get(), 4096);
  Pair pair = Connect(client.get());
  memset(buffer->bytes().data(), 0x55, 8);
  EXPECT_EQ(Read(client.get(), pair.client.get(), buffer->bytes().data(), 8, hidden_.address, hidden_.rkey), refused());
  EXPECT_EQ(absl::string_view(buffer->bytes().data(), 8), std::string(8, 0x55));
  Await(server_.get(), Opcode::kDisconnected, client.get());
}

}  // namespace
}  // namespace farlook::rdma::conformance
