// That registered memory for messages comes back: linked into the conformance test of verbs.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"

namespace farlook::rdma::conformance {
namespace {

constexpr size_t kClients = 12;
// What an endpoint without connections may keep: a chunk of 32 slots.
constexpr uint64_t kLeast = 140'000;

Backend MessageMemory() {
  Backend backend;
  backend.name = "verbs, memory for messages";
  backend.unused_address = UnusedTestAddress;
  return backend;
}

class MessageMemoryTest : public ConformanceTest {
 protected:
  // A message there and back.
  void Echo(Queue* client, const Pair& pair, const std::string& message) {
    ASSERT_TRUE(pair.client->PostSend(message, ""));
    pair.client->Ring();
    ASSERT_EQ(Await(server_.get(), Opcode::kReceive, client).message, message);
    ASSERT_TRUE(pair.server->PostSend(message, ""));
    pair.server->Ring();
    ASSERT_EQ(Await(client, Opcode::kReceive, server_.get()).message, message);
  }
  uint64_t ServerBytes() const { return server_->get()->message_bytes(); }
};

TEST_P(MessageMemoryTest, WhatClientsNeededComesBackWhenTheyAreGone) {
  StartServer();
  for (int round = 0; round < 3; ++round) {
    auto client = NewClient();
    uint64_t most = 0;
    {
      std::vector<Pair> pairs;
      for (size_t i = 0; i < kClients; ++i) {
        pairs.push_back(Connect(client.get()));
        ASSERT_NO_FATAL_FAILURE(Echo(client.get(), pairs.back(), absl::StrCat("message ", i)));
      }
      most = ServerBytes();
      EXPECT_GT(most, 10 * kLeast);
      // Expect: whoever stays is served with what is left, however much it sends, while it shrinks.
      const Pair last = std::move(pairs.back());
      pairs.clear();
      ASSERT_TRUE(PumpUntil(client.get(), [&] {
        Echo(client.get(), last, std::string(2000, 'm'));
        return HasFatalFailure() || ServerBytes() < most / 3;
      }));
      EXPECT_LT(ServerBytes(), most / 3);
    }
    EXPECT_TRUE(PumpUntil(client.get(), [&] { return ServerBytes() <= kLeast; })) << ServerBytes();
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, MessageMemoryTest, testing::Values(MessageMemory()),
                         [](const testing::TestParamInfo<Backend>&) { return std::string("Backend"); });

}  // namespace
}  // namespace farlook::rdma::conformance
