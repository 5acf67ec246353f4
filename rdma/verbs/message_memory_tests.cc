// Registered memory for messages is freed: linked into the conformance test of verbs.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
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
// Most that an endpoint without connections may keep: a chunk of 32 slots.
constexpr uint64_t kLeast = 140'000;

Backend MessageMemory() {
  Backend backend;
  backend.name = "verbs, memory for messages";
  backend.unused_address = UnusedTestAddress;
  return backend;
}

class MessageMemoryTest : public ConformanceTest {
 protected:
  // Sends a message there and back.
  void Echo(Queue* client, const Pair& pair, const std::string& message) {
    ASSERT_TRUE(pair.client->PostSend(message, ""));
    pair.client->Ring();
    ASSERT_EQ(Await(server_.get(), Opcode::kReceive, client).message, message);
    ASSERT_TRUE(pair.server->PostSend(message, ""));
    pair.server->Ring();
    ASSERT_EQ(Await(client, Opcode::kReceive, server_.get()).message, message);
  }
  void UseUp();
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
      // Expect: the remaining client is served, however much it sends, while the memory shrinks.
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

// Drops CAP_IPC_LOCK permanently, so that the limit of locked memory applies to root too.
void HeedLimits() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct capabilities[2];
  ASSERT_EQ(syscall(SYS_capget, &header, capabilities), 0);
  capabilities[0].effective &= ~(1u << CAP_IPC_LOCK);
  ASSERT_EQ(syscall(SYS_capset, &header, capabilities), 0);
}

// From now on no more memory can be registered than at this moment.
void AllowNoMoreMemory() {
  std::ifstream status("/proc/self/status");
  unsigned long kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "VmPin: %lu kB", &kib) == 1) break;
  }
  ASSERT_GT(kib, 0u) << "the kernel does not say what is pinned";
  const rlimit pinned = {kib << 10, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &pinned), 0);
}

// Connections share the pool, and each leaves up to 15 SENDs without a signal. The ticks are far away.
void MessageMemoryTest::UseUp() {
  HeedLimits();
  options_.liveness_ms = 100 * kBoundMs;
  StartServer();
  auto client = NewClient();
  std::vector<Pair> pairs;
  for (int i = 0; i < 4; ++i) pairs.push_back(Connect(client.get()));
  const std::string message(3000, 'm');
  for (const Pair& pair : pairs) ASSERT_NO_FATAL_FAILURE(Echo(client.get(), pair, message));
  AllowNoMoreMemory();
  uint64_t sent = 0;
  for (size_t turn = 0, refused = 0; refused < pairs.size(); ++turn) {
    const Pair& pair = pairs[turn % pairs.size()];
    if (pair.client->PostSend(message, "")) {
      pair.client->Ring();
      ++sent;
      refused = 0;
    } else {
      ++refused;
    }
  }
  ASSERT_LE(sent, 32u) << "there was more memory";
  // Expect: each can send again.
  for (const Pair& pair : pairs) {
    ASSERT_TRUE(PumpUntil(client.get(), [&] {
      server_->events().clear();
      return pair.client->PostSend(message, "");
    }));
    pair.client->Ring();
  }
}

// In a process of its own: the kernel refuses a device to a process that has changed its capabilities since it opened
// it.
TEST_P(MessageMemoryTest, SlotsComeBackWhereThereIsNoMoreMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        UseUp();
        _exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Verbs, MessageMemoryTest, testing::Values(MessageMemory()),
                         [](const testing::TestParamInfo<Backend>&) { return std::string("Backend"); });

}  // namespace
}  // namespace farlook::rdma::conformance
