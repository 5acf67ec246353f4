// Queue pairs of a client in a thread domain, on a device that pretends to have them: linked into the conformance test
// of verbs. See "Thread domains" in docs/design-notes.md.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "rdma/conformance/fixture.h"
#include "rdma/test_address.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/pretended_device.h"

namespace farlook::rdma::conformance {
namespace {

Backend ThreadDomains() {
  Backend backend;
  backend.name = "verbs, thread domains";
  backend.unused_address = UnusedTestAddress;
  return backend;
}

class ThreadDomainTest : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    Pretend({});
  }
  void TearDown() override {
    ConformanceTest::TearDown();
    verbs::Pretend({});
  }

  void Pretend(verbs::Pretence device) {
    device.thread_domains = true;
    verbs::Pretend(device);
  }

  // Connects twice with one endpoint, READs and sends both ways over each; afterwards everything of the client is
  // freed.
  void UseConnections() {
    auto client = NewClient();
    Pair first = Connect(client.get());
    Pair second = Connect(client.get());
    auto buffer = NewBuffer(client.get(), 4096);
    for (const Pair* pair : {&first, &second}) {
      ASSERT_EQ(Read(client.get(), pair->client.get(), buffer->bytes().data(), 4096, table_.address, table_.rkey),
                WcStatus::kSuccess);
      ASSERT_EQ(memcmp(buffer->bytes().data(), Pattern(0, 4096).data(), 4096), 0);
      ASSERT_TRUE(pair->client->PostSend("to the server", ""));
      pair->client->Ring();
      ASSERT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, "to the server");
      ASSERT_TRUE(pair->server->PostSend("to the client", ""));
      pair->server->Ring();
      ASSERT_EQ(Await(client.get(), Opcode::kReceive).message, "to the client");
    }
    EXPECT_EQ(verbs::Used().freed_too_early, 0);
  }
};

TEST_P(ThreadDomainTest, AClientsQueuePairsAreInOneAndAServersAreNot) {
  StartServer();
  EXPECT_EQ(verbs::Used().thread_domains, 0) << "of the listener";
  ASSERT_NO_FATAL_FAILURE(UseConnections());
  const verbs::ThreadDomainUse used = verbs::Used();
  EXPECT_EQ(used.thread_domains, 1);
  EXPECT_EQ(used.parent_domains, 1);
  EXPECT_EQ(used.queue_pairs, 2) << "the client's";
  EXPECT_EQ(used.others, 2) << "the server's";
  EXPECT_EQ(used.alive, 0);
  EXPECT_EQ(used.freed_too_early, 0);
}

TEST_P(ThreadDomainTest, AClientThatCannotConnectLeavesNone) {
  {
    auto client = NewClient();
    auto connection = client->get()->Connect(UnusedTestAddress(), "hello", kConnectTimeoutMs);
    ASSERT_TRUE(connection.ok()) << connection.status();
    EXPECT_EQ(Await(client.get(), Opcode::kDisconnected).connection, connection->get());
  }
  EXPECT_EQ(verbs::Used().thread_domains, 1);
  EXPECT_EQ(verbs::Used().alive, 0);
  EXPECT_EQ(verbs::Used().freed_too_early, 0);
}

TEST_P(ThreadDomainTest, WhatTheProviderDoesNotHaveOrHasNoMoreOfIsDoneWithout) {
  StartServer();
  for (const int error : {EOPNOTSUPP, ENOSYS, ENOMEM}) {
    verbs::Pretence no_thread_domain;
    no_thread_domain.alloc_td_error = error;
    verbs::Pretence no_parent_domain;
    no_parent_domain.alloc_parent_domain_error = error;
    for (const verbs::Pretence& device : {no_thread_domain, no_parent_domain}) {
      SCOPED_TRACE(testing::Message() << strerror(error) << (device.alloc_td_error != 0 ? "" : " of the parent"));
      Pretend(device);
      ASSERT_NO_FATAL_FAILURE(UseConnections());
      EXPECT_EQ(verbs::Used().thread_domains, device.alloc_td_error != 0 ? 0 : 1);
      EXPECT_EQ(verbs::Used().parent_domains, 0);
      EXPECT_EQ(verbs::Used().others, 4);
      EXPECT_EQ(verbs::Used().alive, 0);
      EXPECT_EQ(verbs::Used().freed_too_early, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, ThreadDomainTest, testing::Values(ThreadDomains()),
                         [](const testing::TestParamInfo<Backend>&) { return std::string("Backend"); });

}  // namespace
}  // namespace farlook::rdma::conformance
