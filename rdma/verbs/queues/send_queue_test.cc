// Reports and retirements of a send queue, on a device that accepts all requests and completes as the test demands.
#include "rdma/verbs/queues/send_queue.h"

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/local_memory.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/queues/flow_control.h"
#include "rdma/verbs/queues/read_credits.h"

namespace farlook::rdma::verbs {
namespace {

int TakeAll(ibv_qp* /*pair*/, ibv_send_wr* /*requests*/, ibv_send_wr** /*refused*/) { return 0; }

class SendQueueTest : public testing::Test {
 protected:
  SendQueueTest() {
    context_.ops.post_send = TakeAll;
    pair_.context = &context_;
    memory_.Add({landing_, landing_ + sizeof(landing_), /*lkey=*/1, /*lands_reads=*/true});
  }

  // Numbers are those of the entries: they count from 0, in the order of posting.
  void Read(uint64_t wr_id) {
    const Sge piece = {landing_, 64};
    ASSERT_TRUE(queue_.Read(wr_id, {&piece, 1}, 4096, 2));
    ASSERT_EQ(queue_.Issue(&pair_), SendQueue::Issued::kAll);
  }
  void Send(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(queue_.Send(MessageHeader(), "message", ""));
    ASSERT_EQ(queue_.Issue(&pair_), SendQueue::Issued::kAll);
  }
  // The device completes that entry; returns what is reported.
  std::vector<uint64_t> Complete(uint32_t number) {
    Completion done;
    if (!queue_.Complete(number, WcStatus::kSuccess, &done)) return {};
    EXPECT_EQ(done.status, WcStatus::kSuccess);
    return {done.wr_id};
  }

  using Reported = std::vector<uint64_t>;

  ibv_context context_ = {};
  ibv_qp pair_ = {};
  char landing_[64];
  LocalMemory memory_;
  ReadCredits credits_{1000};
  SendQueue queue_{{nullptr, &memory_, nullptr, &credits_, {}},
                   {.send_depth = 128, .hardware_depth = 64, .send_sges = 1},
                   kInlineBytes,
                   /*tag=*/0};
};

TEST_F(SendQueueTest, ACompletionRetiresTheSendsBeforeIt) {
  Send(kSignalInterval - 1);
  Read(7);
  EXPECT_EQ(Complete(kSignalInterval - 1), Reported({7}));
  EXPECT_TRUE(queue_.empty());
}

// See "Soft iWARP completes out of order" in docs/design-notes.md.
TEST_F(SendQueueTest, AReadIsReportedThoughASendAfterItWasDoneBefore) {
  Read(7);
  Send(kSignalInterval);
  ASSERT_EQ(queue_.in_flight(), 2u) << "the last SEND asks for a completion";
  EXPECT_EQ(Complete(kSignalInterval), Reported());
  EXPECT_EQ(queue_.in_flight(), 1u);
  EXPECT_EQ(Complete(0), Reported({7}));
  EXPECT_EQ(queue_.in_flight(), 0u);
  EXPECT_TRUE(queue_.empty()) << "nothing else will retire them";
  // Expect: it goes on normally.
  Read(8);
  EXPECT_EQ(Complete(kSignalInterval + 1), Reported({8}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SendQueueTest, SeveralReadsAreReportedThatSendsOvertook) {
  Send(1);
  Read(7);                // 1
  Send(kSignalInterval);  // signalled at 1 + kSignalInterval
  Read(8);
  Send(kSignalInterval);
  Send(1);
  const uint32_t second_read = 2 + kSignalInterval;
  EXPECT_EQ(Complete(1 + kSignalInterval), Reported());
  EXPECT_EQ(Complete(second_read + kSignalInterval), Reported());
  EXPECT_EQ(Complete(1), Reported({7}));
  EXPECT_EQ(Complete(second_read), Reported({8}));
  EXPECT_EQ(queue_.in_flight(), 0u);
  EXPECT_FALSE(queue_.empty()) << "the last SEND is with the device";
  Read(9);
  EXPECT_EQ(Complete(second_read + kSignalInterval + 2), Reported({9}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(SendQueueTest, AReadThatSendsOvertookIsFlushedOnce) {
  Read(7);
  Send(kSignalInterval);
  EXPECT_EQ(Complete(kSignalInterval), Reported());
  Completion done;
  ASSERT_TRUE(queue_.FlushNext(&done));
  EXPECT_EQ(done.wr_id, 7u);
  EXPECT_EQ(done.status, WcStatus::kFlushed);
  EXPECT_FALSE(queue_.FlushNext(&done));
}

}  // namespace
}  // namespace farlook::rdma::verbs
