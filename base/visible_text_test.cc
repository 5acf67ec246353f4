#include "base/visible_text.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace farlook {
namespace {

TEST(VisibleTextTest, OnlyAFirstByteOrderMarkGoes) {
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb\xbf\xef\xbb\xbf"
                                 "a"),
            "\xef\xbb\xbf"
            "a");
  EXPECT_EQ(WithoutByteOrderMark("a"), "a");
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb"), "\xef\xbb");
}

TEST(VisibleTextTest, PlainTextIsAllVisible) {
  for (const absl::string_view line :
       {"", "--listen=tcp://[::1]:7471", "a b\tc", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x92"}) {
    EXPECT_EQ(FirstInvisible(line), "") << line;
  }
}

TEST(VisibleTextTest, TellsTheFirstCharacterAndItsPlace) {
  EXPECT_EQ(FirstInvisible("a\xc2\xa0\xe2\x80\x8b"), "U+00A0 at byte 2, which cannot be seen");
  EXPECT_EQ(FirstInvisible("\xef\xbb\xbf--fast"), "U+FEFF at byte 1, which cannot be seen");
  EXPECT_EQ(FirstInvisible("--fast\x1b[0m"), "U+001B at byte 7, which cannot be seen");
  EXPECT_EQ(FirstInvisible(absl::string_view("-\0-", 3)), "U+0000 at byte 2, which cannot be seen");
}

TEST(VisibleTextTest, TellsOfBytesThatAreNotUtf8) {
  for (const absl::string_view bad :
       {"\xff\xfe-", "\xe9", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    EXPECT_NE(FirstInvisible(bad).find("at byte 1, which is not UTF-8"), std::string::npos) << FirstInvisible(bad);
  }
}

}  // namespace
}  // namespace farlook
