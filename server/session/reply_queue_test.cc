#include "server/session/reply_queue.h"

#include "gtest/gtest.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::server {
namespace {

TEST(ReplyQueue, KeepsOrderBehindAFullSendQueue) {
  rdma::FakePeer peer;
  rdma::FakeConnection connection(&peer, {});
  ReplyQueue queue(&connection);
  peer.send_room = 2;
  EXPECT_TRUE(queue.Post("fir", "st"));
  EXPECT_TRUE(queue.Post("1", ""));
  EXPECT_FALSE(queue.Post("2", "a"));
  EXPECT_TRUE(queue.Queue("2", "a", 2));
  EXPECT_FALSE(queue.Post("3", ""));  // behind the message that waits
  EXPECT_TRUE(queue.Queue("3", "", 2));
  EXPECT_FALSE(queue.Queue("4", "", 2));
  EXPECT_FALSE(queue.Continue());
  peer.send_room = 1;
  EXPECT_TRUE(queue.Continue());
  EXPECT_FALSE(queue.empty());
  // Expect: a message posted when there is room again does not overtake.
  peer.send_room = 10;
  EXPECT_FALSE(queue.Post("5", ""));
  EXPECT_TRUE(queue.Queue("5", "", 2));
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
  EXPECT_FALSE(queue.Post("1", ""));
  EXPECT_TRUE(queue.Queue("1", "", 1));
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  peer.send_room = 1;
  EXPECT_FALSE(queue.Continue());
}

}  // namespace
}  // namespace farlook::server
