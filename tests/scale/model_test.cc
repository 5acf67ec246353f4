#include "tests/scale/model.h"

#include <limits>

#include "gtest/gtest.h"

namespace farlook::scale {
namespace {

// Figures with which only the queue under test is a bottleneck.
Scenario Plain() {
  Scenario s;
  s.nic = {"test", 2'000, 20e6, 40e6, 10e9, 16, 1'000'000, 500, 50};
  s.cpu = {100, 500, 1, 1};
  s.keys = 0;
  return s;
}

TEST(ModelTest, OneClientTakesARoundTripAndItsOwnTime) {
  Scenario s = Plain();
  const Result result = Simulate(s);
  EXPECT_NEAR(result.median_ns, 2'100, 10);
  EXPECT_NEAR(result.operations_per_second, 1e9 / 2'100, 3e3);
}

TEST(ModelTest, EachReadIsOneRoundTripMore) {
  Scenario s = Plain();
  s.counts.one_read = 0;
  s.counts.three_reads = 1;
  EXPECT_NEAR(Simulate(s).median_ns, 6'100, 40);
}

TEST(ModelTest, ExtraReadsAreRoundTripsOnAverage) {
  Scenario s = Plain();
  s.counts.extra_reads = 1.5;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (100 + 2.5 * 2'000), 4e3);
}

TEST(ModelTest, ManyClientsReachTheServersAdapter) {
  Scenario s = Plain();
  s.clients = 200;
  const Result result = Simulate(s);
  EXPECT_NEAR(result.operations_per_second / s.nic.reads_per_second, 1, 0.02);
  EXPECT_NEAR(result.median_ns, 200 / 20e6 * 1e9, 200);
}

TEST(ModelTest, TwoServersReachTwice) {
  Scenario s = Plain();
  s.clients = 400;
  s.servers = 2;
  EXPECT_NEAR(Simulate(s).operations_per_second / s.nic.reads_per_second, 2, 0.1);
}

TEST(ModelTest, AFavouredKeyBoundsManyServers) {
  Scenario s = Plain();
  s.clients = 500;
  s.servers = 64;
  const double even = Simulate(s).operations_per_second;
  s.keys = 1'000;
  EXPECT_LT(Simulate(s).operations_per_second, even * 0.8);
}

TEST(ModelTest, LargeValuesReachTheLink) {
  Scenario s = Plain();
  s.clients = 200;
  s.counts.item_bytes = 100'000;
  EXPECT_NEAR(Simulate(s).operations_per_second * 100'000 / s.nic.bytes_per_second, 1, 0.02);
}

TEST(ModelTest, MessagesReachTheServersProcessor) {
  Scenario s = Plain();
  s.clients = 200;
  s.by_message = true;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / s.cpu.request_ns, 5e4);
  s.cpu.workers = 4;
  EXPECT_NEAR(Simulate(s).operations_per_second, 4e9 / s.cpu.request_ns, 2e5);
}

TEST(ModelTest, WritesAreMessages) {
  Scenario s = Plain();
  s.reads = 0;
  s.clients = 200;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / s.cpu.request_ns, 5e4);
}

TEST(ModelTest, ReadDepthBoundsOneConnection) {
  Scenario s = Plain();
  s.in_flight = 16;
  s.nic.read_depth = 2;
  s.cpu.client_ns = 1;
  EXPECT_NEAR(Simulate(s).operations_per_second, 2 / 2'000e-9, 1e4);
}

TEST(ModelTest, QueuePairsBeyondTheCacheCostTime) {
  Scenario s = Plain();
  s.clients = 200;
  s.nic.cached_queue_pairs = 100;  // half of the READs miss
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (50 + 0.5 * 500), 1e5);
}

TEST(ModelTest, DoorbellsOfAHostAreOneQueue) {
  Scenario s = Plain();
  s.clients = s.cpu.clients_per_host = 100;
  s.nic.doorbell_ns = 200;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / 200, 5e4);
}

// A round trip consists only of its parts.
Scenario OneProcessor() {
  Scenario s = Plain();
  s.nic.round_trip_ns = 0;
  s.nic.bytes_per_second = std::numeric_limits<double>::infinity();
  s.cpu.shared = true;
  return s;
}

TEST(ModelTest, OneProcessorForEverything) {
  EXPECT_NEAR(Simulate(OneProcessor()).operations_per_second, 1e9 / (100 + 50 + 2 * 25 + 50), 1e4);
}

TEST(ModelTest, WhatIsPostedTogetherRingsOnce) {
  Scenario s = OneProcessor();
  s.nic.batch_ns = 400;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (100 + 2 * 25 + 50 + 450), 1e4);
  s.in_flight = 16;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (100 + 2 * 25 + 50 + 450.0 / 16), 5e4);
  // Another client's READs are posted by themselves.
  s.in_flight = 1;
  s.clients = 16;
  s.cpu.clients_per_host = 16;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (100 + 2 * 25 + 50 + 450), 1e4);
}

TEST(ModelTest, WhoSleepsIsWokenOnceForAllThatCame) {
  Scenario s = OneProcessor();
  s.by_message = true;
  s.cpu.wake_ns = 3'000;
  const double each = 100 + 500 + 4 * 25;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (each + 2 * 50 + 2 * 3'000), 1e3);
  s.in_flight = 16;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (each + (2 * 50 + 2 * 3'000) / 16.0), 2e4);
  // A woken worker precedes the other clients, and finds one message.
  s.in_flight = 1;
  s.clients = 8;
  s.cpu.clients_per_host = 8;
  EXPECT_NEAR(Simulate(s).operations_per_second, 1e9 / (each + 2 * 50 + 2 * 3'000), 1e3);
}

}  // namespace
}  // namespace farlook::scale
