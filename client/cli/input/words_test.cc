#include "client/cli/input/words.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Words(absl::string_view line) {
  absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
  EXPECT_TRUE(words.ok()) << words.status();
  return words.ok() ? *words : std::vector<std::string>();
}

std::string Error(absl::string_view line) { return std::string(SplitWords(line).status().message()); }

TEST(WordsTest, BlanksSeparate) {
  EXPECT_THAT(Words(""), IsEmpty());
  EXPECT_THAT(Words(" \t \r\n"), IsEmpty());
  EXPECT_THAT(Words("  put\tkey  value \r"), ElementsAre("put", "key", "value"));
}

TEST(WordsTest, QuotesKeepBlanksAndMakeEmptyWords) {
  EXPECT_THAT(Words("put 'a key' \"a value\""), ElementsAre("put", "a key", "a value"));
  EXPECT_THAT(Words("put k ''"), ElementsAre("put", "k", ""));
  EXPECT_THAT(Words("a'b c'd\"e f\"g"), ElementsAre("ab cde fg"));
}

TEST(WordsTest, EscapesWorkInDoubleQuotesOnly) {
  EXPECT_THAT(Words(R"("a\tb\x00\"")"), ElementsAre(std::string("a\tb\0\"", 5)));
  EXPECT_THAT(Words(R"('a\tb\')"), ElementsAre("a\\tb\\"));
  EXPECT_THAT(Words(R"(a\ b \"c \\)"), ElementsAre("a b", "\"c", "\\"));
}

TEST(WordsTest, CommentsBeginAWord) {
  EXPECT_THAT(Words("# nothing here"), IsEmpty());
  EXPECT_THAT(Words("get k # 'why"), ElementsAre("get", "k"));
  EXPECT_THAT(Words("get k#1 '#2'"), ElementsAre("get", "k#1", "#2"));
}

TEST(WordsTest, ErrorsNameThePosition) {
  EXPECT_THAT(Error("put k 'abc"), HasSubstr("position 7"));
  EXPECT_THAT(Error("put k \"abc\\\""), HasSubstr("position 7"));
  EXPECT_THAT(Error("put \"a\\q\""), HasSubstr("position 5"));
  EXPECT_THAT(Error("put k \\"), HasSubstr("backslash"));
}

}  // namespace
}  // namespace farlook::cli
