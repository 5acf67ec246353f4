#include "server/daemon/violation_log.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::server {
namespace {

class Lines final : public LogSink {
 public:
  Lines() { SetLogSink(this); }
  ~Lines() override { SetLogSink(nullptr); }
  void Put(std::string line) override { text += line; }
  std::string text;
};

TEST(ViolationLogTest, EachKindIsCountedAndWarnedOfWithinBounds) {
  Lines lines;
  rdma::FakeClock clock;
  {
    ViolationLog log(&clock);
    rdma::NoteViolation(rdma::Violator::kStranger, "10.0.0.1:5", "no greeting");
    for (int i = 0; i < 100; ++i) rdma::NoteViolation(rdma::Violator::kClient, "pid 7 uid 8", "malformed message");
    EXPECT_EQ(log.strangers(), 1u);
    EXPECT_EQ(log.clients(), 100u);
  }
  EXPECT_TRUE(absl::StrContains(lines.text,
                                "level=warning msg=\"client rejected\" peer=10.0.0.1:5 reason=\"breaks the "
                                "protocol of the transport: no greeting\" suppressed=0\n"))
      << lines.text;
  EXPECT_TRUE(absl::StrContains(lines.text,
                                "level=warning msg=\"client dropped\" peer=\"pid 7 uid 8\" reason=\"breaks "
                                "the protocol of the transport: malformed message\" suppressed=0\n"))
      << lines.text;
  EXPECT_EQ(std::count(lines.text.begin(), lines.text.end(), '\n'), 11);
  // Expect: without an observer nothing happens.
  rdma::NoteViolation(rdma::Violator::kClient, "pid 7 uid 8", "malformed message");
}

}  // namespace
}  // namespace farlook::server
