#include "client/cli/input/encoding.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

std::string AllBytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

TEST(EncodingTest, EveryEncodingOfKeysNamesItself) {
  EXPECT_EQ(*ParseKeyEncoding("raw"), KeyEncoding::kRaw);
  EXPECT_EQ(*ParseKeyEncoding("hex"), KeyEncoding::kHex);
  EXPECT_EQ(*ParseKeyEncoding("escaped"), KeyEncoding::kEscaped);
  EXPECT_THAT(ParseKeyEncoding("base64").status().message(), HasSubstr("raw, hex, escaped"));
}

TEST(EncodingTest, AnyBytesSurviveEveryEncoding) {
  const std::vector<std::string> keys = {"", "plain", std::string("\0", 1), "a\\n", "\xC3\xA9\xFF", AllBytes()};
  for (const KeyEncoding encoding : {KeyEncoding::kRaw, KeyEncoding::kHex, KeyEncoding::kEscaped}) {
    for (const std::string& key : keys) {
      const absl::StatusOr<std::string> back = DecodeKey(EncodeKey(key, encoding), encoding);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, key);
    }
  }
}

TEST(EncodingTest, HexSaysWhatIsWrong) {
  EXPECT_EQ(*DecodeKey("00fFaB", KeyEncoding::kHex), std::string("\0\xFF\xAB", 3));
  EXPECT_THAT(DecodeKey("abc", KeyEncoding::kHex).status().message(), HasSubstr("odd number"));
  EXPECT_THAT(DecodeKey("00xy", KeyEncoding::kHex).status().message(), HasSubstr("\"xy\" at position 3"));
}

TEST(EncodingTest, EscapesAreReadable) {
  EXPECT_EQ(Escape("a b"), "a b");
  EXPECT_EQ(Escape("\t\n\r\\"), "\\t\\n\\r\\\\");
  EXPECT_EQ(Escape(std::string("\0\x1F\x7F", 3)), "\\x00\\x1f\\x7f");
  EXPECT_EQ(Escape("\xC3\xA9\xC3"), "\xC3\xA9\\xc3");
  // Expect: no control character reaches a terminal, not even as UTF-8.
  EXPECT_EQ(Escape("\xC2\x9B\x32J"), "\\xc2\\x9b2J");
}

TEST(EncodingTest, PrintableTextObeysNoControlCharacter) {
  EXPECT_EQ(Printable("two\nlines\tand a \\ \xC3\xA9"), "two\nlines\tand a \\ \xC3\xA9");
  EXPECT_EQ(Printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(Printable("\r\x7F\xC2\x9B\xFF"), "\\r\\x7f\\xc2\\x9b\\xff");
}

TEST(EncodingTest, UnescapeKnowsWhatItShould) {
  EXPECT_EQ(*Unescape("\\x41\\0\\\"\\'\\\\"), std::string("A\0\"'\\", 5));
  EXPECT_THAT(Unescape("ab\\q").status().message(), HasSubstr("position 3"));
  EXPECT_THAT(Unescape("ab\\").status().message(), HasSubstr("position 3"));
  EXPECT_THAT(Unescape("\\x4").status().message(), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(Unescape("\\xg0").status().message(), HasSubstr("two hexadecimal digits"));
  EXPECT_FALSE(Unescape(std::string("\\\0", 2)).ok());
}

TEST(EncodingTest, KnowsUtf8) {
  for (const char* good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << Escape(good);
  }
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_FALSE(IsUtf8(bad)) << Escape(bad);
  }
  EXPECT_TRUE(IsUtf8(absl::string_view("\0", 1)));
}

TEST(EncodingTest, QuotedFitsALine) {
  EXPECT_EQ(Quoted("k"), "\"k\"");
  EXPECT_EQ(Quoted("say \"a\"\n"), "\"say \\\"a\\\"\\n\"");
  const std::string cut = Quoted(std::string(1024, 'x'));
  EXPECT_THAT(cut, HasSubstr("(1024 bytes)"));
  EXPECT_LT(cut.size(), 90u);
  // Expect: a character is not cut in two.
  const std::string text = Quoted(absl::StrCat(std::string(63, 'x'), "\xC3\xA9", "yyy"));
  EXPECT_THAT(text, HasSubstr("xxx\"... (68 bytes)"));
}

}  // namespace
}  // namespace farlook::cli
