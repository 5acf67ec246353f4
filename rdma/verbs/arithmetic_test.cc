// Code that needs no device: negotiation, flow control, signalling, liveness, local keys, the texts of statuses.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/local_memory.h"
#include "rdma/verbs/device/wc_status.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/queues/flow_control.h"
#include "rdma/verbs/queues/liveness.h"
#include "rdma/verbs/queues/signalling.h"

namespace farlook::rdma::verbs {
namespace {

DeviceTraits Device() {
  DeviceTraits device;
  device.atomics = true;
  device.max_serve_reads = 16;
  device.max_ask_reads = 300;
  device.max_send_wrs = 100;
  device.max_sges = 30;
  device.max_read_sges = 2;
  device.max_completions = 1000;
  device.max_message_bytes = 4096;
  device.max_region_bytes = 1 << 20;
  return device;
}

TEST(NegotiationTest, AtomicsOfTheDeviceOrOfAllAgentsServeCountersAndNothingElseDoes) {
  EXPECT_FALSE(HasAtomics(IBV_ATOMIC_NONE));
  EXPECT_TRUE(HasAtomics(IBV_ATOMIC_HCA));
  EXPECT_TRUE(HasAtomics(IBV_ATOMIC_GLOB));
  EXPECT_FALSE(HasAtomics(static_cast<ibv_atomic_cap>(IBV_ATOMIC_GLOB + 1))) << "who knows what it means";
}

TEST(NegotiationTest, DepthsAreWhatBothCan) {
  const ReadDepths offered = OfferedDepths(Device());
  EXPECT_EQ(offered.serve, 16);
  EXPECT_EQ(offered.ask, 254) << "255 has another meaning";
  EXPECT_EQ(AgreedDepths(Device(), 4, 200)->serve, 4);
  EXPECT_EQ(AgreedDepths(Device(), 4, 200)->ask, 200);
  EXPECT_EQ(AgreedDepths(Device(), 100, 1000)->serve, 16);
  EXPECT_FALSE(AgreedDepths(Device(), 0, 4).ok());
  EXPECT_FALSE(AgreedDepths(Device(), 4, 0).ok());
}

TEST(NegotiationTest, QueuesAreWhatTheDeviceHas) {
  const QueuePlan plan = PlanQueues(Device(), Role::kClient);
  EXPECT_EQ(plan.hardware_depth, 100u);
  EXPECT_EQ(plan.send_sges, 2u);
  const Capabilities can = CapabilitiesOf(Device(), plan, {16, 30}, /*atomics=*/true);
  EXPECT_TRUE(can.atomics);
  EXPECT_EQ(can.max_outstanding_reads, 30u);
  EXPECT_EQ(can.max_read_bytes, 4096u);
  EXPECT_TRUE(can.reads_at_once);
  EXPECT_FALSE(CapabilitiesOf(Device(), plan, {16, 30}, /*atomics=*/false).atomics) << "not granted";
  EXPECT_EQ(CompletionEntries(Device()), 1000u);
}

// Two sides that send and read at random never overrun each other, and never both stall.
TEST(FlowControlTest, NeitherOverrunsNorStalls) {
  struct Side {
    FlowControl flow;
    std::deque<MessageHeader> arriving;
    uint32_t window = 0;
    int sent = 0;
  };
  std::mt19937 random(20260101);
  for (int round = 0; round < 50; ++round) {
    Side sides[2];
    for (int i = 0; i < 2; ++i) sides[i].window = 16 + random() % 100;
    for (int i = 0; i < 2; ++i) sides[i].flow.Begin(sides[i].window, sides[1 - i].window);
    for (int step = 0; step < 20'000; ++step) {
      Side& self = sides[random() % 2];
      Side& other = &self == &sides[0] ? sides[1] : sides[0];
      for (uint32_t burst = random() % 200; burst > 0 && self.flow.may_send(); --burst) {
        other.arriving.push_back(self.flow.Send());
        ++self.sent;
      }
      for (uint32_t burst = random() % 50; burst > 0 && !self.arriving.empty(); --burst) {
        ASSERT_TRUE(self.flow.Receive(self.arriving.front()));
        self.arriving.pop_front();
        self.flow.Reposted();
      }
      if (self.flow.owes_credits() && self.flow.may_send_control()) other.arriving.push_back(self.flow.Send());
      ASSERT_LE(other.arriving.size(), other.window) << "more than there are receive buffers";
    }
    EXPECT_GT(sides[0].sent, 1000);
    EXPECT_GT(sides[1].sent, 1000);
  }
}

TEST(FlowControlTest, WhoBreaksTheRulesIsSeen) {
  FlowControl flow;
  flow.Begin(16, 16);
  MessageHeader header;
  header.limit = 16;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(flow.Receive(header));
  EXPECT_FALSE(flow.Receive(header)) << "the seventeenth of sixteen";
  FlowControl other;
  other.Begin(16, 16);
  header.limit = 0x7fffffff;
  EXPECT_FALSE(other.Receive(header)) << "grants what nobody has";
}

TEST(SignallingTest, OneInNAsksAndReadsCount) {
  Signalling signalling;
  uint32_t unsignalled = 0;
  for (int i = 0; i < 1000; ++i) {
    unsignalled = signalling.ForSend(false) ? 0 : unsignalled + 1;
    ASSERT_LT(unsignalled, kSignalInterval);
  }
  for (uint32_t i = 1; i < kSignalInterval; ++i) {
    signalling.Signalled();
    EXPECT_FALSE(signalling.ForSend(false));
  }
}

TEST(LivenessTest, DeathIsKnownAtTheThirdTick) {
  Liveness liveness;
  EXPECT_EQ(liveness.Tick(false), Liveness::Verdict::kFine);
  EXPECT_EQ(liveness.Tick(false), Liveness::Verdict::kProbe);
  EXPECT_EQ(liveness.Tick(true), Liveness::Verdict::kDead);
  liveness.OnReceived();
  EXPECT_EQ(liveness.Tick(true), Liveness::Verdict::kFine);
  // Expect: a request posted a moment ago has a whole tick.
  EXPECT_EQ(liveness.Tick(true), Liveness::Verdict::kFine);
  EXPECT_EQ(liveness.Tick(true), Liveness::Verdict::kDead);
  EXPECT_EQ(TickNs(3000), 1'000'000'000);
}

// Returns the time at which a death is detected. Ticks are at multiples of `tick_ns`; the peer responds until it dies
// at `death_ns`. Requests of this side are with the device from `posted_ns` on, besides the probe.
int64_t KnownNs(int64_t tick_ns, int64_t death_ns, int64_t posted_ns) {
  Liveness liveness;
  int64_t asked_ns = posted_ns;
  for (int64_t now_ns = 0;; now_ns += tick_ns) {
    if (now_ns <= death_ns) liveness.OnReceived();
    switch (liveness.Tick(asked_ns <= now_ns)) {
      case Liveness::Verdict::kFine:
        break;
      case Liveness::Verdict::kProbe:
        asked_ns = now_ns;
        break;
      case Liveness::Verdict::kDead:
        return now_ns;
    }
    // Between two ticks it responds, if it lives.
    if (now_ns < death_ns) liveness.OnReceived();
  }
}

// By the ticks alone: a device that gives up by itself only makes it sooner.
TEST(LivenessTest, WheneverAPeerDiesItIsKnownWithinTheBound) {
  constexpr int64_t kNever = INT64_MAX;
  for (const int64_t liveness_ms : {30, 100, 3'000, 3'600'000}) {
    const int64_t tick_ns = TickNs(liveness_ms);
    int64_t longest_ns = 0;
    for (int64_t death = 0; death < 40; ++death) {
      const int64_t death_ns = 10 * tick_ns + death * tick_ns / 40;
      longest_ns = std::max(longest_ns, KnownNs(tick_ns, death_ns, kNever) - death_ns);
      for (int64_t posted = -80; posted < 160; ++posted) {
        const int64_t posted_ns = death_ns + posted * tick_ns / 40;
        longest_ns = std::max(longest_ns, KnownNs(tick_ns, death_ns, posted_ns) - death_ns);
      }
    }
    EXPECT_LE(longest_ns, liveness_ms * 1'000'000) << "--liveness=" << liveness_ms << "ms";
    EXPECT_GT(longest_ns, 2 * tick_ns) << "a peer that is slow for one tick is not gone";
  }
  EXPECT_EQ(TransportOptions().liveness_ms, 3'000) << "what docs and --help say";
}

// The device's own parameters: it gives up within the default bound, even if it takes four times as long for its
// retries, as adapters may.
TEST(LivenessTest, TheRetriesOfTheDeviceEndWithinTheDefaultBound) {
  constexpr int64_t kRetriesNs = (int64_t{4096} << kAckTimeout) * (kRetries + 1);
  EXPECT_LT(4 * kRetriesNs, TransportOptions().liveness_ms * 1'000'000);
  EXPECT_LT(kRetriesNs, TickNs(TransportOptions().liveness_ms)) << "a probe is answered, or failed, at the next tick";
  EXPECT_LT(kRetries, 7) << "on Soft-RoCE without end";
  EXPECT_LT(kRnrRetries, 7) << "without end";
}

TEST(LocalMemoryTest, OnlyWholeRangesAreFound) {
  char bytes[100];
  LocalMemory memory;
  memory.Add({bytes + 50, bytes + 60, 2, true});
  memory.Add({bytes + 10, bytes + 20, 1, true});
  EXPECT_EQ(memory.Find(bytes + 10, 10)->lkey, 1u);
  EXPECT_EQ(memory.Find(bytes + 55, 5)->lkey, 2u);
  EXPECT_EQ(memory.Find(bytes + 55, 6), nullptr);
  EXPECT_EQ(memory.Find(bytes + 9, 2), nullptr);
  EXPECT_EQ(memory.Find(bytes + 20, 1), nullptr);
  EXPECT_EQ(memory.Find(bytes + 15, UINT64_MAX), nullptr);
  memory.Remove(bytes + 10);
  EXPECT_EQ(memory.Find(bytes + 10, 1), nullptr);
  EXPECT_EQ(memory.Find(bytes + 50, 1)->lkey, 2u);
}

TEST(WcStatusTest, EveryStatusHasASentence) {
  for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; ++i) {
    EXPECT_NE(WcSentence(static_cast<ibv_wc_status>(i)), "the device reports an error that is unknown here") << i;
    EXPECT_EQ(WcStatusOf(static_cast<ibv_wc_status>(i)) == WcStatus::kSuccess, i == IBV_WC_SUCCESS);
  }
  EXPECT_EQ(WcStatusOf(IBV_WC_REM_ACCESS_ERR), WcStatus::kRemoteAccess);
  EXPECT_EQ(WcStatusOf(IBV_WC_RETRY_EXC_ERR), WcStatus::kRetryExceeded);
  // A status of a later rdma-core: within the range of the enumeration.
  EXPECT_EQ(WcStatusOf(static_cast<ibv_wc_status>(31)), WcStatus::kFlushed);
}

}  // namespace
}  // namespace farlook::rdma::verbs
