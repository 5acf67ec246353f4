// Buffers: a server may READ those of a client, within their bounds and lifetime only.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

TEST_P(ConformanceTest, TheServerReadsAClientsBuffer) {
  StartServer();
  auto client = NewClient();
  auto early = NewBuffer(client.get(), 100'000, /*readable=*/true);  // before there is a connection
  Pair pair = Connect(client.get());
  auto late = NewBuffer(client.get(), 5000, /*readable=*/true);
  auto target = NewBuffer(server_.get(), 100'000);
  for (Buffer* buffer : {early.get(), late.get()}) {
    const std::string text = Pattern(buffer->remote().rkey * 8, buffer->bytes().size());
    memcpy(buffer->bytes().data(), text.data(), text.size());
    // The message that names a buffer must not arrive before the buffer can be read.
    ASSERT_TRUE(pair.client->PostSend("pull", ""));
    pair.client->Ring();
    Await(server_.get(), Opcode::kReceive, client.get());
    const RemoteRange& remote = buffer->remote();
    ASSERT_EQ(Read(server_.get(), pair.server.get(), target->bytes().data(), 5000, remote.address, remote.rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(target->bytes().data(), 5000), text.substr(0, 5000));
    ASSERT_EQ(Read(server_.get(), pair.server.get(), target->bytes().data(), 104, remote.address + 4096 - 104 + 8,
                   remote.rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(target->bytes().data(), 104), text.substr(4000, 104));
  }
}

// Memory of the user, from an odd address on: READs fetch into it, and the other side READs it.
TEST_P(ConformanceTest, RegisteredMemoryIsABuffer) {
  StartServer();
  auto client = NewClient();
  std::vector<char> memory(20'000);
  const auto users = absl::MakeSpan(memory.data() + 3, 10'000);
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*client)->Register(users);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  Pair pair = Connect(client.get());
  // Expect: if registering gains nothing, READs fetch into it as into any memory.
  EXPECT_EQ(*buffer == nullptr && !pair.client->capabilities().any_local_memory, false);
  ASSERT_EQ(Read(client.get(), pair.client.get(), users.data() + 1, 2000, table_.address, table_.rkey),
            WcStatus::kSuccess);
  EXPECT_EQ(absl::string_view(users.data() + 1, 2000), Pattern(0, 2000));
  EXPECT_EQ(users[0], 0);
  EXPECT_EQ(users[2001], 0);
  if (*buffer == nullptr) return;
  EXPECT_EQ((*buffer)->bytes().data(), users.data());
  EXPECT_EQ((*buffer)->bytes().size(), users.size());
  auto target = NewBuffer(server_.get(), 8192);
  const RemoteRange remote = (*buffer)->remote();
  // READs of peers begin at a multiple of 8.
  const uint64_t from = (8 - (remote.address + 1) % 8) % 8 + 1;
  ASSERT_EQ(Read(server_.get(), pair.server.get(), target->bytes().data(), 1001, remote.address + from, remote.rkey),
            WcStatus::kSuccess);
  EXPECT_EQ(absl::string_view(target->bytes().data(), 1001), absl::string_view(users.data() + from, 1001));
}

TEST_P(ConformanceTest, ABufferThatIsGoneCannotBeRead) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto buffer = NewBuffer(client.get(), 4096, /*readable=*/true);
  const RemoteRange remote = buffer->remote();
  auto target = NewBuffer(server_.get(), 4096);
  buffer.reset();
  ASSERT_TRUE(pair.client->PostSend("gone", ""));
  pair.client->Ring();
  Await(server_.get(), Opcode::kReceive, client.get());
  // Expect: refused once the notice has arrived; until then it may still be readable.
  WcStatus status = WcStatus::kSuccess;
  ASSERT_TRUE(PumpUntil(client.get(), [&] {
    status = Read(server_.get(), pair.server.get(), target->bytes().data(), 8, remote.address, remote.rkey);
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
  auto target = NewBuffer(server_.get(), 8192);
  EXPECT_EQ(Read(server_.get(), pair.server.get(), target->bytes().data(), 8192, buffer->remote().address,
                 buffer->remote().rkey),
            refused());
  Await(server_.get(), Opcode::kDisconnected, client.get());
  Await(client.get(), Opcode::kDisconnected);
}

TEST_P(ConformanceTest, BuffersComeAndGoWithoutEnd) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  auto target = NewBuffer(server_.get(), 4096);
  for (int i = 0; i < 300; ++i) {
    auto buffer = NewBuffer(client.get(), 1 << 20, /*readable=*/true);
    ASSERT_NE(buffer, nullptr);
    const std::string text = absl::StrCat("value ", 100000 + i);
    memcpy(buffer->bytes().data(), text.data(), text.size());
    ASSERT_TRUE(pair.client->PostSend("pull", ""));
    pair.client->Ring();
    Await(server_.get(), Opcode::kReceive, client.get());
    ASSERT_EQ(Read(server_.get(), pair.server.get(), target->bytes().data(), static_cast<uint32_t>(text.size()),
                   buffer->remote().address, buffer->remote().rkey),
              WcStatus::kSuccess);
    ASSERT_EQ(absl::string_view(target->bytes().data(), text.size()), text);
  }
}

TEST_P(ConformanceTest, BuffersHaveLimitsThatAreSaid) {
  StartServer();
  auto client = NewClient();
  EXPECT_FALSE((*client)->Allocate(0, false).ok());
  const absl::Status status = (*client)->Allocate(size_t{1} << 50, true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // Expect: a full endpoint accepts buffers again after some were freed.
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
