// Slow kernel calls that an endpoint's thread leaves to the listener's. Rings are created before a client is accepted,
// and its mappings are freed after it has disconnected.
#include "rdma/shm/disposal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/raw_client.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {
namespace {

constexpr uint64_t kBytes = 1 << 20;
constexpr int64_t kBoundNs = 20'000'000'000;

size_t MappingsOf(const std::string& name) {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos ? 1 : 0;
  return count;
}

bool Readable(int fd) {
  pollfd waiting = {fd, POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

TEST(DisposalTest, SoManyWaitAndNoMore) {
  constexpr size_t kMappedBytes = (size_t{5} << 20) + 4096;  // several pieces, and a remainder
  absl::StatusOr<UniqueFd> memory = CreateSealable("disposed", kMappedBytes);
  ASSERT_TRUE(memory.ok());
  Disposal disposal;
  EXPECT_FALSE(Readable(disposal.fd()));
  for (size_t i = 1; i <= 2 * Disposal::kMost; ++i) {
    absl::StatusOr<Mapping> mapping = Map(memory->get(), kMappedBytes, /*writable=*/true);
    ASSERT_TRUE(mapping.ok());
    disposal.Take(*std::move(mapping));
    EXPECT_EQ(MappingsOf("memfd:disposed"), std::min(i, Disposal::kMost));
  }
  EXPECT_TRUE(Readable(disposal.fd()));
  disposal.Free();
  EXPECT_EQ(MappingsOf("memfd:disposed"), 0u);
  EXPECT_FALSE(Readable(disposal.fd()));
}

// Uses up all descriptors that this process may open. The limit stays far above zero: the kernel also compares it with
// the descriptors under way in sockets of all processes of this user (ETOOMANYREFS), including other tests.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit limit = {std::min<rlim_t>(before_.rlim_max, 4096), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) used_.emplace_back(fd);
  }
  void End() {
    used_.clear();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }

 private:
  rlimit before_;
  std::vector<UniqueFd> used_;
};

class ListenersWorkTest : public testing::Test {
 protected:
  ListenersWorkTest() : address_(absl::StrCat("shm:///tmp/farlook_disposal_", std::random_device()())) {
    listener_ = *Listen(address_);
    endpoint_ = *listener_->CreateEndpoint();
  }

  std::unique_ptr<ConnectionRequest> Request(RawClient* client) {
    EXPECT_TRUE(client->connected());
    client->Send(BytesOf(HelloPacket()));
    std::unique_ptr<ConnectionRequest> request;
    Until([&] { return (request = listener_->Next()) != nullptr; });
    return request;
  }
  void Until(const std::function<bool()>& done) {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundNs;
    while (!done()) ASSERT_LT(Clock::Real().NowNs(), end_ns);
  }
  // Acts as a worker's thread; the listener's thread does nothing meanwhile.
  void PollUntil(const std::function<bool()>& done) {
    Until([&] {
      Completion completion;
      if (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 1 && completion.opcode == Opcode::kDisconnected) {
        ended_ = true;
      }
      return done();
    });
  }

  const std::string address_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> endpoint_;
  bool ended_ = false;
};

TEST_F(ListenersWorkTest, APreparedRequestIsAcceptedWithoutAnotherDescriptor) {
  for (const bool prepared : {false, true}) {
    RawClient client(address_);
    const std::unique_ptr<ConnectionRequest> request = Request(&client);
    ASSERT_NE(request, nullptr);
    if (prepared) request->Prepare();
    NoDescriptorsLeft none_left;
    const auto connection = request->Accept(endpoint_.get(), "welcome", {});
    none_left.End();
    EXPECT_EQ(connection.ok(), prepared) << connection.status();
    if (prepared) {
      EXPECT_NE(client.TakeRings(), nullptr);
    }
  }
}

TEST_F(ListenersWorkTest, WhatAClientHadIsGivenBackByTheListenersThread) {
  absl::StatusOr<UniqueFd> memory = CreateSealable("offered", kBytes);
  ASSERT_TRUE(memory.ok());
  ASSERT_EQ(fallocate(memory->get(), 0, 0, kBytes), 0);
  ASSERT_TRUE(Seal(memory->get(), Sealing::kReadOnly).ok());
  const int fd = memory->get();
  RawClient client(address_);
  const std::unique_ptr<ConnectionRequest> request = Request(&client);
  ASSERT_NE(request, nullptr);
  const auto connection = request->Accept(endpoint_.get(), "welcome", {});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto offer = [&](Notice what, uint32_t rkey) {
    NoticePacket notice;
    notice.notice = what;
    notice.rkey = rkey;
    notice.bytes = what == Notice::kOffer ? kBytes : 0;
    client.Send(BytesOf(notice), absl::MakeConstSpan(&fd, what == Notice::kOffer ? 1 : 0));
  };
  offer(Notice::kOffer, kRangeSlots);
  offer(Notice::kOffer, kRangeSlots + 1);
  PollUntil([] { return MappingsOf("memfd:offered") == 2; });
  EXPECT_FALSE(Readable(listener_->fd()));

  // Expect: a withdrawn mapping is freed by the listener's thread, which is woken.
  offer(Notice::kWithdraw, kRangeSlots);
  PollUntil([&] { return Readable(listener_->fd()); });
  EXPECT_EQ(MappingsOf("memfd:offered"), 2u);
  listener_->CleanUp();
  EXPECT_EQ(MappingsOf("memfd:offered"), 1u);
  EXPECT_FALSE(Readable(listener_->fd()));

  // Expect: so is the rest, after the client has disconnected.
  const size_t rings = MappingsOf("memfd:farlook-rings");
  client.Close();
  PollUntil([&] { return ended_; });
  EXPECT_TRUE(Readable(listener_->fd()));
  EXPECT_EQ(MappingsOf("memfd:offered"), 1u);
  EXPECT_EQ(MappingsOf("memfd:farlook-rings"), rings);
  listener_->CleanUp();
  EXPECT_EQ(MappingsOf("memfd:offered"), 0u);
  EXPECT_EQ(MappingsOf("memfd:farlook-rings"), rings - 1);
}

}  // namespace
}  // namespace farlook::rdma::shm
