// A client that is neither dead nor polling: the moment from which it can no longer change the server's memory.
#include "rdma/shm/atomic_gate.h"

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/shared_memory.h"
#include "rdma/shm/raw_client.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {
namespace {

constexpr int64_t kBoundMs = 20'000;

class AtomicGateTest : public testing::Test {
 protected:
  AtomicGateTest() {
    static int next = 0;
    address_ = absl::StrCat("shm:///tmp/farlook_gate_", std::random_device()(), "_", next++);
    SharedMemoryOptions options;
    options.bytes = 4096;
    options.huge_pages = HugePages::kNone;
    options.access = Access::kRemoteReadAtomic;
    memory_ = std::make_unique<SharedMemory>(*SharedMemory::Create(options));
    listener_ = *Listen(address_);
    cells_ = *listener_->Offer(memory_->range(), Access::kRemoteReadAtomic);
    server_ = *listener_->CreateEndpoint();
  }

  void Accept() {
    ASSERT_TRUE(Until([this] {
      std::unique_ptr<ConnectionRequest> request = listener_->Next();
      if (request == nullptr) return false;
      at_server_ = *request->Accept(server_.get(), "welcome", absl::MakeConstSpan(&cells_.rkey, 1));
      return true;
    }));
  }
  std::unique_ptr<RawClient> AcceptRaw() {
    auto client = std::make_unique<RawClient>(address_);
    client->Send(BytesOf(HelloPacket()));
    Accept();
    return client;
  }
  void AcceptClient() {
    client_ = *CreateEndpoint(address_);
    at_client_ = *client_->Connect(address_, "hello", kBoundMs);
    Completion completion;
    ASSERT_TRUE(Until([&] {
      if (at_server_ == nullptr) {
        std::unique_ptr<ConnectionRequest> request = listener_->Next();
        if (request != nullptr) {
          at_server_ = *request->Accept(server_.get(), "welcome", absl::MakeConstSpan(&cells_.rkey, 1));
        }
      }
      return client_->Poll(absl::MakeSpan(&completion, 1)) == 1 && completion.opcode == Opcode::kConnected;
    }));
  }

  template <typename Done>
  bool Until(Done done) {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundMs * 1'000'000;
    while (!done()) {
      if (Clock::Real().NowNs() > end_ns) return false;
    }
    return true;
  }
  // The server disconnects the client, and sees the end.
  void DisconnectAtServer() {
    at_server_->Disconnect();
    Completion completion;
    ASSERT_TRUE(Until([&] { return server_->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
    ASSERT_EQ(completion.opcode, Opcode::kDisconnected);
  }
  uint64_t Word() const { return *reinterpret_cast<const uint64_t*>(memory_->data()); }

  std::string address_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<Listener> listener_;
  RemoteRange cells_;
  std::unique_ptr<Endpoint> server_, client_;
  std::unique_ptr<Connection> at_server_, at_client_;
};

TEST_F(AtomicGateTest, AStoppedClientOutsideIsQuiescentAtOnce) {
  auto client = AcceptRaw();
  ASSERT_NE(client->TakeRings(), nullptr);
  DisconnectAtServer();
  EXPECT_TRUE(at_server_->quiescent());
}

TEST_F(AtomicGateTest, AStoppedClientInsideIsAwaitedUntilItIsOut) {
  auto client = AcceptRaw();
  SegmentLayout* const rings = client->TakeRings();
  ASSERT_NE(rings, nullptr);
  ASSERT_TRUE(rings->gate.Enter());
  DisconnectAtServer();
  EXPECT_FALSE(at_server_->quiescent());
  EXPECT_FALSE(at_server_->quiescent());
  rings->gate.Leave();
  EXPECT_TRUE(at_server_->quiescent());
  EXPECT_FALSE(rings->gate.Enter()) << "nobody comes in again";
}

TEST_F(AtomicGateTest, AStoppedClientInsideIsAwaitedUntilItIsDead) {
  auto client = AcceptRaw();
  SegmentLayout* const rings = client->TakeRings();
  ASSERT_NE(rings, nullptr);
  ASSERT_TRUE(rings->gate.Enter());
  DisconnectAtServer();
  EXPECT_FALSE(at_server_->quiescent());
  client->Close();  // as the kernel does
  EXPECT_TRUE(at_server_->quiescent());
}

TEST_F(AtomicGateTest, AClientThatDiesInsideIsGone) {
  auto client = AcceptRaw();
  SegmentLayout* const rings = client->TakeRings();
  ASSERT_NE(rings, nullptr);
  ASSERT_TRUE(rings->gate.Enter());
  client->Close();
  Completion completion;
  ASSERT_TRUE(Until([&] { return server_->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  EXPECT_EQ(completion.opcode, Opcode::kDisconnected);
  EXPECT_TRUE(at_server_->quiescent());
}

TEST_F(AtomicGateTest, AnIdleClientThatWasLetGoPostsNothing) {
  AcceptClient();
  uint64_t old = 7;
  ASSERT_TRUE(at_client_->PostFetchAdd(1, &old, cells_.address, cells_.rkey, 5));
  at_client_->Ring();
  EXPECT_EQ(Word(), 5u);
  Completion completion;
  ASSERT_EQ(client_->Poll(absl::MakeSpan(&completion, 1)), 1u);
  DisconnectAtServer();
  ASSERT_TRUE(at_server_->quiescent());
  // Expect: the outcome is certain, since nothing was posted.
  EXPECT_FALSE(at_client_->PostFetchAdd(2, &old, cells_.address, cells_.rkey, 5));
  EXPECT_EQ(Word(), 5u);
  ASSERT_EQ(client_->Poll(absl::MakeSpan(&completion, 1)), 1u);
  EXPECT_EQ(completion.opcode, Opcode::kDisconnected);
}

TEST_F(AtomicGateTest, WhatWasPostedAndNotRungIsFlushed) {
  AcceptClient();
  uint64_t old = 7;
  ASSERT_TRUE(at_client_->PostFetchAdd(1, &old, cells_.address, cells_.rkey, 5));
  ASSERT_TRUE(at_client_->PostCompareSwap(2, &old, cells_.address, cells_.rkey, 0, 9));
  DisconnectAtServer();
  ASSERT_TRUE(at_server_->quiescent());
  at_client_->Ring();
  EXPECT_EQ(Word(), 0u);
  Completion completions[4];
  ASSERT_EQ(client_->Poll(absl::MakeSpan(completions)), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(completions[1].status, WcStatus::kFlushed);
  EXPECT_EQ(completions[2].opcode, Opcode::kDisconnected);
}

TEST_F(AtomicGateTest, ACellIsNotReadThroughAClosedGate) {
  AcceptClient();
  uint64_t value = 7;
  const Sge to{reinterpret_cast<char*>(&value), sizeof value};
  ASSERT_TRUE(at_client_->PostRead(1, {&to, 1}, cells_.address, cells_.rkey));
  at_client_->Ring();
  Completion completions[4];
  ASSERT_EQ(client_->Poll(absl::MakeSpan(completions)), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(value, 0u);
  // The client is stopped here, and disconnected meanwhile: the cell becomes another counter's.
  ASSERT_TRUE(at_client_->PostRead(2, {&to, 1}, cells_.address, cells_.rkey));
  DisconnectAtServer();
  ASSERT_TRUE(at_server_->quiescent());
  memory_->data()[0] = 9;
  at_client_->Ring();
  EXPECT_EQ(value, 0u);
  ASSERT_EQ(client_->Poll(absl::MakeSpan(completions)), 2u);
  EXPECT_EQ(completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(completions[1].opcode, Opcode::kDisconnected);
}

}  // namespace
}  // namespace farlook::rdma::shm
