// A worker's handling of hits that clients of a cache report, the messages of kv/wire/touched.h.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/wire/message.h"
#include "kv/wire/touched.h"
#include "server/executor/hit_reports.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::SampleNotice;
using kv::TouchedLocations;

class WorkerTouchesTest : public testing::Test {
 protected:
  explicit WorkerTouchesTest(bool evict = true) : t_(32 << 20, 16, 100, 3, /*users=*/nullptr, kTestWindow, evict) {}

  static std::string Value(uint32_t sample, const std::vector<uint64_t>& slots, uint32_t gets = 10, uint32_t hits = 8) {
    TouchedLocations touched;
    touched.gets = gets;
    touched.hits = hits;
    touched.sample = sample;
    std::string value(TouchedLocations::kHeadBytes, '\0');
    touched.EncodeHead(value.data());
    value.append(reinterpret_cast<const char*>(slots.data()), 8 * slots.size());
    return value;
  }
  void Report(absl::string_view value) {
    kv::Request request;
    request.type = kv::RequestType::kTouched;
    request.value = value;
    call_->peer.Send(Encode(request));
    t_.PollAll();
  }
  const WorkerStats& stats() { return t_.worker().stats(); }

  TestWorker t_;
  FakeCall* call_ = t_.Connect();
};

class WorkerOfAStoreTest : public WorkerTouchesTest {
 protected:
  WorkerOfAStoreTest() : WorkerTouchesTest(/*evict=*/false) {}
};

TEST_F(WorkerTouchesTest, TheWelcomeSaysHowManyHitsAreToBeTold) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).sample, HitReports::kFirstSample);
}

TEST_F(WorkerTouchesTest, WhatIsToldCountsAndHasNoReply) {
  const auto put = t_.Ask(call_, MakePut(1, "k", "v"));
  ASSERT_EQ(put->code, kv::Code::kOk);
  Report(Value(HitReports::kFirstSample, {put->slot.word(), 7, put->slot.word()}));
  EXPECT_EQ(stats().touches.value(), 2u);
  EXPECT_EQ(stats().ignored_touches.value(), 1u);
  EXPECT_EQ(stats().reported_gets.value(), 10u);
  EXPECT_EQ(stats().reported_hits.value(), 8u);
  EXPECT_TRUE(call_->peer.sent.empty());
  EXPECT_EQ(stats().dropped.value(), 0u);
}

TEST_F(WorkerTouchesTest, WhoTellsAnotherShareIsToldTheOneInForce) {
  Report(Value(1, {}));
  ASSERT_EQ(call_->peer.sent.size(), 1u);
  EXPECT_TRUE(SampleNotice::Is(call_->peer.sent.front()));
  EXPECT_EQ(SampleNotice::Decode(call_->peer.sent.front()), HitReports::kFirstSample);
}

TEST_F(WorkerTouchesTest, WhatIsMalformedEndsTheConnection) {
  const std::string whole = Value(4, {1, 2, 3});
  std::string reserved = whole;
  reserved[12] = 1;
  for (const std::string& value : {whole.substr(0, 15), whole.substr(0, 20), reserved, Value(0, {}),
                                   Value(4, {}, /*gets=*/1, /*hits=*/2), std::string()}) {
    const uint64_t before = stats().dropped.value();
    call_ = t_.Connect();
    Report(value);
    EXPECT_EQ(stats().dropped.value(), before + 1) << value.size() << " bytes";
  }
  // 501 slots do not fit.
  EXPECT_GT(Value(4, std::vector<uint64_t>(501)).size(), TouchedLocations::kMaxBytes);
  TouchedLocations touched;
  EXPECT_FALSE(TouchedLocations::Decode(Value(4, std::vector<uint64_t>(501)), &touched));
  EXPECT_TRUE(TouchedLocations::Decode(Value(4, std::vector<uint64_t>(500)), &touched));
}

TEST_F(WorkerOfAStoreTest, WhoWasNotAskedMustNotTell) {
  EXPECT_EQ(TestWorker::WelcomeOf(call_).sample, 0u);
  Report(Value(4, {1}));
  EXPECT_EQ(stats().dropped.value(), 1u);
}

TEST(SampleNotice, IsPinned) {
  const auto bytes = SampleNotice::Encode(8);
  EXPECT_EQ(std::string(bytes.data(), bytes.size()), std::string("\x81\0\0\0\x08\0\0\0", 8));
  EXPECT_EQ(SampleNotice::Decode(absl::string_view("\x81\0\0\0\0\0\0\0", 8)), 0u);
  EXPECT_EQ(SampleNotice::Decode(absl::string_view("\x81\1\0\0\x08\0\0\0", 8)), 0u);
  EXPECT_EQ(SampleNotice::Decode(absl::string_view("\x81\0\0\0\x08\0\0", 7)), 0u);
}

}  // namespace
}  // namespace farlook::server
