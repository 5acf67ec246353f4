// Messages: whole, in order, both ways, and the behavior without room.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/conformance/fixture.h"

namespace farlook::rdma::conformance {
namespace {

TEST_P(ConformanceTest, MessagesOfEveryLengthArriveWholeAndInOrder) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  for (size_t bytes = 1; bytes <= kMaxMessageBytes; bytes += bytes < 300 ? 1 : 97) {
    const std::string message = Pattern(bytes * 8, bytes);
    const size_t split = bytes % 3 == 0 ? bytes : random_() % (bytes + 1);
    const absl::string_view head = absl::string_view(message).substr(0, split);
    const absl::string_view body = absl::string_view(message).substr(split);
    ASSERT_TRUE(pair.client->PostSend(head, body));
    ASSERT_TRUE(pair.server->PostSend(head, body));
    pair.client->Ring();
    pair.server->Ring();
    ASSERT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, message);
    ASSERT_EQ(Await(client.get(), Opcode::kReceive).message, message);
  }
  const std::string longest(kMaxMessageBytes, 'm');
  ASSERT_TRUE(pair.client->PostSend(longest, ""));
  pair.client->Ring();
  EXPECT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, longest);
}

TEST_P(ConformanceTest, ABatchRungOnceArrivesInOrder) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  for (int round = 0; round < 200; ++round) {
    constexpr int kBatch = 20;
    for (int i = 0; i < kBatch; ++i) {
      ASSERT_TRUE(pair.client->PostSend(absl::StrCat(round, "/", i), std::string(random_() % 300, 'b')));
    }
    pair.client->Ring();
    for (int i = 0; i < kBatch; ++i) {
      const Event event = Await(server_.get(), Opcode::kReceive, client.get());
      ASSERT_EQ(event.connection, pair.server.get());
      ASSERT_EQ(event.message.substr(0, event.message.find('b')), absl::StrCat(round, "/", i));
    }
  }
}

TEST_P(ConformanceTest, AMessageThatRingsTakesWhatWasPostedBeforeAlong) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  for (const size_t bytes : {size_t{10}, size_t{40}, size_t{200}, kMaxMessageBytes - 4}) {
    const std::string body = Pattern(bytes, bytes);
    ASSERT_TRUE(pair.client->PostSend("one ", body));
    ASSERT_TRUE(pair.client->PostSendAndRing("two ", body));
    ASSERT_TRUE(pair.server->PostSendAndRing("back", body));
    EXPECT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, absl::StrCat("one ", body));
    EXPECT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, absl::StrCat("two ", body));
    EXPECT_EQ(Await(client.get(), Opcode::kReceive).message, absl::StrCat("back", body));
  }
  EXPECT_FALSE(pair.client->PostSendAndRing("", ""));
}

TEST_P(ConformanceTest, MessagesOfNoOrTooManyBytesAreNotSent) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  EXPECT_FALSE(pair.client->PostSend("", ""));
  Pair other = Connect(client.get());
  EXPECT_FALSE(other.client->PostSend(std::string(kMaxMessageBytes, 'x'), "y"));
}

TEST_P(ConformanceTest, PollReturnsNoMoreThanAskedFor) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  constexpr int kMessages = 10;
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(pair.server->PostSend(absl::StrCat(i), ""));
  pair.server->Ring();
  ASSERT_TRUE(PumpUntil(nullptr, [&] {
    EXPECT_EQ(client->Pump(0), 0u);
    EXPECT_LE(client->Pump(1), 1u);
    return client->events().size() == kMessages;
  }));
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(client->events()[static_cast<size_t>(i)].message, absl::StrCat(i));
}

TEST_P(ConformanceTest, NoRoomIsSaidAndPassesWhenThePeerReads) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  uint64_t sent = 0;
  uint64_t received = 0;
  for (int round = 0; round < 5; ++round) {
    // The server does not poll, so this ends.
    while (pair.client->PostSend(absl::StrCat(sent, " "), std::string(random_() % 4000, 'x'))) {
      ++sent;
      ASSERT_LT(sent, 1'000'000u) << "no bound on what is queued";
      pair.client->Ring();
      client->Pump();
    }
    ASSERT_TRUE(PumpUntil(client.get(), [&] {
      for (; !server_->events().empty(); server_->events().pop_front()) {
        const Event& event = server_->events().front();
        EXPECT_EQ(event.opcode, Opcode::kReceive);
        EXPECT_EQ(event.message.substr(0, event.message.find(' ')), absl::StrCat(received));
        ++received;
      }
      return received == sent;
    }));
  }
}

TEST_P(ConformanceTest, WhoDoesNotReceiveHoldsUpItsPeerAndNobodyElse) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  Pair other = Connect(client.get());
  for (int round = 0; round < 3; ++round) {
    pair.server->SetReceiving(false);
    uint64_t sent = 0;
    int refused = 0;
    // Expect: sooner or later there is no room, although the server polls.
    ASSERT_TRUE(PumpUntil(client.get(), [&] {
      if (pair.client->PostSend(absl::StrCat(sent, " "), std::string(random_() % 4000, 'x'))) {
        ++sent;
        refused = 0;
      } else {
        ++refused;
      }
      pair.client->Ring();
      return sent > 100'000 || refused > 1000;
    }));
    ASSERT_LE(sent, 100'000u) << "no bound on what is kept";
    EXPECT_TRUE(server_->events().empty());
    // Expect: other connections, and the other direction, go on.
    ASSERT_TRUE(other.client->PostSend("other", ""));
    ASSERT_TRUE(pair.server->PostSend("back", ""));
    other.client->Ring();
    pair.server->Ring();
    EXPECT_EQ(Await(server_.get(), Opcode::kReceive, client.get()).message, "other");
    EXPECT_EQ(Await(client.get(), Opcode::kReceive).message, "back");
    // Expect: all sent messages in order, including the one sent now.
    pair.server->SetReceiving(true);
    bool last = false;
    uint64_t received = 0;
    ASSERT_TRUE(PumpUntil(client.get(), [&] {
      if (!last) last = pair.client->PostSend(absl::StrCat(sent, " "), "");
      pair.client->Ring();
      for (; !server_->events().empty(); server_->events().pop_front()) {
        const std::string& message = server_->events().front().message;
        EXPECT_EQ(message.substr(0, message.find(' ')), absl::StrCat(received));
        ++received;
      }
      return received == sent + 1;
    }));
  }
}

TEST_P(ConformanceTest, TheEndIsToldToWhoDoesNotReceive) {
  StartServer();
  auto client = NewClient();
  Pair pair = Connect(client.get());
  pair.server->SetReceiving(false);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.client->PostSend("lost", ""));
  pair.client->Ring();
  for (int i = 0; i < 200; ++i) {
    client->Pump();
    server_->Pump();
  }
  pair.client->Disconnect();
  EXPECT_EQ(Await(server_.get(), Opcode::kDisconnected, client.get()).connection, pair.server.get());
  EXPECT_TRUE(server_->events().empty());
}

}  // namespace
}  // namespace farlook::rdma::conformance
