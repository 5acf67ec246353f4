#include "server/reply_queue.h"

#include "gtest/gtest.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::server {
namespace {

using Sent = ReplyQueue::Sent;

TEST(ReplyQueue, KeepsOrderBehindAFullSendQueue) {
  rdma::FakePeer peer;
  rdma::FakeConnection connection(&peer, {});
  ReplyQueue queue(&connection);
  peer.send_room = 2;
  EXPECT_EQ(queue.Send("fir", "st", 2), Sent::kPosted);
  EXPECT_EQ(queue.Send("1", "", 2), Sent::kPosted);
  EXPECT_EQ(queue.Send("2", "a", 2), Sent::kQueued);
  EXPECT_EQ(queue.Send("3", "", 2), Sent::kQueued);
  EXPECT_EQ(queue.Send("4", "", 2), Sent::kTooMany);
  EXPECT_FALSE(queue.Continue());
  peer.send_room = 1;
  EXPECT_TRUE(queue.Continue());
  EXPECT_FALSE(queue.empty());
  // Expect: one that comes when there is room again does not overtake.
  peer.send_room = 10;
  EXPECT_EQ(queue.Send("5", "", 2), Sent::kQueued);
  EXPECT_TRUE(queue.Continue());
  EXPECT_TRUE(queue.empty());
  connection.Ring();
  EXPECT_EQ(peer.first, "first");
  EXPECT_EQ(peer.sent, (std::deque<std::string>{"1", "2a", "3", "5"}));
}

TEST(ReplyQueue, ForgetsWhatWaits) {
  rdma::FakePeer peer;
  rdma::FakeConnection connection(&peer, {});
  ReplyQueue queue(&connection);
  peer.send_room = 0;
  EXPECT_EQ(queue.Send("1", "", 1), Sent::kQueued);
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  peer.send_room = 1;
  EXPECT_FALSE(queue.Continue());
}

}  // namespace
}  // namespace farlook::server
