// The end of connections: every way in which one ends, seen from both sides, and that all posted work completes exactly
// once.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

void ExpectNoPosts(Connection* connection, const RemoteRange& range) {
  uint64_t word = 0;
  const Sge piece = {reinterpret_cast<char*>(&word), 8};
  EXPECT_FALSE(connection->PostRead(1, {&piece, 1}, range.address, range.rkey));
  EXPECT_EQ(connection->Mapped(range.address, 8, range.rkey), nullptr);
  EXPECT_FALSE(connection->PostSend("x", ""));
  EXPECT_FALSE(connection->PostFetchAdd(1, &word, range.address, range.rkey, 1));
  EXPECT_FALSE(connection->PostCompareSwap(1, &word, range.address, range.rkey, 1, 2));
  connection->Ring();
}

TEST_P(ConformanceTest, BothSidesSeeAnOrderlyDisconnect) {
  StartServer();
  auto client = NewClient();
  for (const bool by_client : {true, false}) {
    Pair pair = Connect(client.get());
    Connection* const active = by_client ? pair.client.get() : pair.server.get();
    active->Disconnect();
    active->Disconnect();  // Expect: idempotent
    ExpectNoPosts(active, table_);
    ExpectEnd(client.get(), pair.client.get(), 0);
    Await(server_.get(), Opcode::kDisconnected, client.get());
    EXPECT_EQ(pair.client->status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(pair.server->status().code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(pair.client->alive());
    EXPECT_FALSE(pair.server->alive());
    ExpectNoPosts(pair.client.get(), table_);
    ExpectNoPosts(pair.server.get(), table_);
  }
}

TEST_P(ConformanceTest, DestroyingWithoutDisconnectEndsItToo) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  pair.client.reset();
  EXPECT_EQ(Await(server_.get(), Opcode::kDisconnected, client.get()).connection, pair.server.get());
  pair = Connect(client.get());
  pair.server.reset();
  EXPECT_EQ(Await(client.get(), Opcode::kDisconnected).connection, pair.client.get());
  // Expect: nothing more is reported for the destroyed ones.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(client->Pump(), 0u);
    EXPECT_EQ(server_->Pump(), 0u);
  }
}

TEST_P(ConformanceTest, PostedWorkCompletesExactlyOnceWhenThisSideDisconnects) {
  StartServer();
  auto client = NewClient();
  for (const bool ring : {true, false}) {
    Pair pair = Connect(client.get());
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*client)->Allocate(4096, false);
    ASSERT_TRUE(buffer.ok());
    constexpr uint64_t kReads = 30;
    for (uint64_t i = 0; i < kReads; ++i) {
      const Sge piece = {(*buffer)->bytes().data() + 8 * i, 8};
      ASSERT_TRUE(pair.client->PostRead(i, {&piece, 1}, table_.address, table_.rkey));
      if (ring && i == kReads / 2) pair.client->Ring();
    }
    pair.client->Disconnect();
    ExpectEnd(client.get(), pair.client.get(), kReads);
    std::vector<int> completed(kReads);
    for (const Event& event : client->events()) {
      ++completed[event.wr_id];
      EXPECT_TRUE(event.status == WcStatus::kSuccess || event.status == WcStatus::kFlushed);
      if (event.wr_id > kReads / 2 || !ring) {
        EXPECT_EQ(event.status, WcStatus::kFlushed);
      }
    }
    for (const int count : completed) EXPECT_EQ(count, 1);
    client->events().clear();
    Await(server_.get(), Opcode::kDisconnected, client.get());
  }
}

TEST_P(ConformanceTest, PostedWorkCompletesExactlyOnceWhenThePeerLeaves) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*client)->Allocate(4096, false);
  ASSERT_TRUE(buffer.ok());
  const Sge piece = {(*buffer)->bytes().data(), 8};
  uint64_t posted = 0;
  for (; posted < 10; ++posted) {
    ASSERT_TRUE(pair.client->PostRead(posted, {&piece, 1}, table_.address, table_.rkey));
  }
  pair.server->Disconnect();
  ASSERT_TRUE(PumpUntil(client.get(), [&] {
    if (pair.client->PostRead(posted, {&piece, 1}, table_.address, table_.rkey)) ++posted;
    pair.client->Ring();
    for (const Event& event : client->events()) {
      if (event.opcode == Opcode::kDisconnected) return true;
    }
    return false;
  }));
  std::vector<int> completed(posted);
  for (const Event& event : client->events()) {
    if (event.opcode == Opcode::kRead) ++completed[event.wr_id];
  }
  EXPECT_EQ(client->events().back().opcode, Opcode::kDisconnected);
  for (const int count : completed) EXPECT_EQ(count, 1);
}

TEST_P(ConformanceTest, WhatWasSentBeforeTheEndArrives) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr int kMessages = 20;
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(pair.server->PostSend(absl::StrCat("last words ", i), ""));
  pair.server->Ring();
  // A message under way may be lost by the sender's own Disconnect; one that was answered may not.
  Await(client.get(), Opcode::kReceive);
  pair.server->Disconnect();
  Await(client.get(), Opcode::kDisconnected);
  uint64_t last = 0;
  for (const Event& event : client->events()) {
    ASSERT_EQ(event.opcode, Opcode::kReceive);
    EXPECT_EQ(event.message, absl::StrCat("last words ", ++last));
  }
}

TEST_P(ConformanceTest, AServerThatStopsIsNoticed) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  pair.server.reset();
  StopServer();
  Await(client.get(), Opcode::kDisconnected);
  EXPECT_EQ(pair.client->status().code(), absl::StatusCode::kUnavailable);
  // Expect: the next server at the address is found.
  StartServer();
  Connect(client.get());
}

TEST_P(ConformanceTest, TheLastMessageOfAPollOutlivesItsConnection) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  ASSERT_TRUE(pair.server->PostSend("stays", ""));
  pair.server->Ring();
  Completion completion;
  ASSERT_TRUE(PumpUntil(nullptr, [&] { return (*client)->Poll({&completion, 1}) == 1; }));
  pair.client.reset();
  EXPECT_EQ(absl::string_view(completion.message.data(), completion.message.size()), "stays");
}

}  // namespace
}  // namespace farlook::rdma::conformance
