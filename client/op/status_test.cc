#include "client/op/status.h"

#include "gtest/gtest.h"
#include "kv/wire/message.h"

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

TEST(StatusTest, AValueThatTheMemoryIsTooShortForIsNoReasonToDeleteKeys) {
  constexpr uint64_t kMemory = uint64_t{1} << 30;
  EXPECT_EQ(NoRoomFor(kMemory / 16, kMemory), StatusOf(kv::Code::kNoMemory));
  const absl::Status status = NoRoomFor(kMemory / 16 + 1, kMemory);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message().find("delete keys"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("--memory=1073741840"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace farlook::client
