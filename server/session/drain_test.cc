#include "server/session/drain.h"

#include "gtest/gtest.h"

namespace farlook::server {
namespace {

constexpr Drain::State kBusy = {.idle = false, .clients = true, .unfinished = true};
constexpr Drain::State kIdle = {.idle = true, .clients = true, .unfinished = false};

TEST(Drain, FinishesRefusesThenDisconnects) {
  Drain drain;
  EXPECT_FALSE(drain.begun());
  drain.Begin(1000, 1'000'000'000);
  EXPECT_TRUE(drain.begun());
  EXPECT_FALSE(drain.Advance(1001, kBusy));
  EXPECT_FALSE(drain.refuses_writes());
  EXPECT_TRUE(drain.Advance(1002, kIdle));
  EXPECT_TRUE(drain.refuses_writes());
  EXPECT_FALSE(drain.Advance(1002 + Drain::kLingerNs - 1, kIdle));
  EXPECT_TRUE(drain.Advance(1002 + Drain::kLingerNs, kIdle));
  EXPECT_TRUE(drain.disconnects());
}

TEST(Drain, WhoKeepsAskingIsRefusedInTheEnd) {
  Drain drain;
  drain.Begin(0, 1'000'000'000);
  EXPECT_FALSE(drain.Advance(Drain::kFinishNs - 1, kBusy));
  EXPECT_TRUE(drain.Advance(Drain::kFinishNs, kBusy));
  EXPECT_TRUE(drain.refuses_writes());
  EXPECT_FALSE(drain.Advance(999'999'999, kBusy));
  EXPECT_TRUE(drain.Advance(1'000'000'000, kBusy));
  EXPECT_TRUE(drain.disconnects());
}

TEST(Drain, WithoutClientsItEndsAtOnce) {
  Drain drain;
  drain.Begin(0, 1'000'000'000);
  EXPECT_TRUE(drain.Advance(1, {.idle = true, .clients = false, .unfinished = false}));
  EXPECT_TRUE(drain.disconnects());
}

}  // namespace
}  // namespace farlook::server
