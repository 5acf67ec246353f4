// The share of each of many connections in a Poll(): each has its turn, limited by messages and by bytes.
#include <poll.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kGreedy = 40;

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() : address_(absl::StrCat("shm:///tmp/farlook_turns_", std::random_device()())) {
    listener_ = *Listen(address_);
    server_ = *listener_->CreateEndpoint();
    client_ = *CreateEndpoint(address_);
  }

  // Returns the client's end of a new connection.
  Connection* Connect() {
    auto connection = client_->Connect(address_, "hello", /*timeout_ms=*/20'000);
    EXPECT_TRUE(connection.ok()) << connection.status();
    std::unique_ptr<ConnectionRequest> request;
    Completion completion;
    bool connected = false;
    while (!connected) {
      if (request == nullptr) request = listener_->Next();
      if (request != nullptr && accepted_.size() == connections_.size()) {
        accepted_.push_back(*request->Accept(server_.get(), "welcome", {}));
      }
      connected = client_->Poll(absl::MakeSpan(&completion, 1)) == 1 && completion.opcode == Opcode::kConnected;
      EXPECT_NE(completion.opcode, Opcode::kDisconnected);
    }
    connections_.push_back(*std::move(connection));
    return connections_.back().get();
  }

  const std::string address_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> server_, client_;
  std::vector<std::unique_ptr<Connection>> connections_, accepted_;
};

TEST_F(TurnsTest, WhoSendsLittleIsHeardSoonBesideManyWhoSendMuch) {
  for (const size_t bytes : {size_t{40}, kMaxMessageBytes}) {
    SCOPED_TRACE(bytes);
    connections_.clear();
    accepted_.clear();
    for (size_t i = 0; i < kGreedy; ++i) {
      Connection* const greedy = Connect();
      while (greedy->PostSend(std::string(bytes, 'g'), "")) {
      }
      greedy->Ring();
    }
    Connection* const honest = Connect();
    std::vector<Completion> out(64);
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(honest->PostSend("honest", ""));
      honest->Ring();
      size_t polls = 0;
      for (bool heard = false; !heard; ++polls) {
        ASSERT_LT(polls, kGreedy);
        std::vector<size_t> taken(accepted_.size());
        const size_t count = server_->Poll(absl::MakeSpan(out));
        size_t all = 0;
        for (size_t i = 0; i < count; ++i) {
          if (out[i].opcode != Opcode::kReceive) continue;
          all += out[i].message.size();
          for (size_t c = 0; c < accepted_.size(); ++c) {
            if (out[i].connection == accepted_[c].get()) taken[c] += out[i].message.size();
          }
          heard = heard || out[i].connection == accepted_.back().get();
        }
        // Expect: none gets more than its turn.
        for (const size_t of_one : taken) ASSERT_LT(of_one, kBytesPerTurn + kMaxMessageBytes);
        ASSERT_LE(all, kReceiveArenaBytes);
      }
      // Expect: one round serves all. A Poll() does a part of it: four connections of 16 messages, or what the arena
      // holds.
      EXPECT_LE(polls, kGreedy / 4 + 1);
    }
  }
}

// The server does not poll a connection that was silent for long, until a send there finds no room.
TEST_F(TurnsTest, ASleeperHearsOfRoomInAConnectionThatWasSilent) {
  for (size_t i = 0; i <= kAlwaysPolled; ++i) Connect();
  std::vector<Completion> out(64);
  for (uint32_t i = 0; i < 2 * kSilentPolls; ++i) ASSERT_EQ(server_->Poll(absl::MakeSpan(out)), 0u);
  for (const auto& connection : accepted_) {
    while (connection->PostSend(std::string(kMaxMessageBytes, 'm'), "")) {
    }
    connection->Ring();
    while (!server_->Arm()) server_->Poll(absl::MakeSpan(out));
    while (client_->Poll(absl::MakeSpan(out)) > 0) {
    }
    pollfd waiting = {server_->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&waiting, 1, /*timeout=*/20'000), 1) << "it sleeps on";
    server_->Poll(absl::MakeSpan(out));
    EXPECT_TRUE(connection->PostSend("more", ""));
  }
}

}  // namespace
}  // namespace farlook::rdma::shm
