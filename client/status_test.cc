#include "client/status.h"

#include "gtest/gtest.h"
#include "kv/message.h"

namespace farlook::client {
namespace {

TEST(StatusTest, EveryCodeHasAStatusThatSaysWhatHappened) {
  EXPECT_TRUE(StatusOf(kv::Code::kOk).ok());
  EXPECT_TRUE(CounterStatusOf(kv::Code::kOk).ok());
  for (int code = 1; code < kv::kCodes; ++code) {
    SCOPED_TRACE(kv::CodeName(static_cast<kv::Code>(code)));
    for (const absl::Status& status :
         {StatusOf(static_cast<kv::Code>(code)), CounterStatusOf(static_cast<kv::Code>(code))}) {
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_GT(status.message().size(), 20) << status;
    }
  }
}

}  // namespace
}  // namespace farlook::client
