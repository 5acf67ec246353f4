#include "base/command_line.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

ABSL_FLAG(int, wheels, 4, "how many");
ABSL_FLAG(std::string, colour, "", "of the paint");
ABSL_FLAG(bool, fast, false, "or slow");

namespace farlook {
namespace {

const std::vector<absl::string_view>& Names() {
  static const auto* const names = new std::vector<absl::string_view>{"wheels", "colour", "fast"};
  return *names;
}

absl::Status Parse(const std::vector<std::string>& words) { return ParseCommandLine("drive", words, Names()); }

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    absl::SetFlag(&FLAGS_wheels, 4);
    absl::SetFlag(&FLAGS_colour, "");
    absl::SetFlag(&FLAGS_fast, false);
  }

  static std::string Write(const std::string& text) {
    const std::string path = absl::StrCat(testing::TempDir(), "/flags");
    std::ofstream(path) << text;
    return path;
  }
  static std::string Wrong(const std::vector<std::string>& words) { return std::string(Parse(words).message()); }
};

TEST_F(CommandLineTest, ReadsAllForms) {
  ASSERT_TRUE(Parse({"--wheels", "3", "-colour=red=blue", "--fast"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 3);
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "red=blue");
  EXPECT_TRUE(absl::GetFlag(FLAGS_fast));
  ASSERT_TRUE(Parse({"--nofast"}).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_fast));
}

TEST_F(CommandLineTest, ReadsFiles) {
  const std::string path = Write("# a car\n\n  --wheels=5  \n--fast\n");
  ASSERT_TRUE(Parse({"--flagfile=" + path, "--colour=red"}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 5);
  EXPECT_TRUE(absl::GetFlag(FLAGS_fast));
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "red");
}

TEST_F(CommandLineTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Wrong({"--wheel=3"}), "unknown flag --wheel: did you mean --wheels?; see drive --help");
  EXPECT_EQ(Wrong({"--nowheels"}), "unknown flag --nowheels: did you mean --wheels?; see drive --help");
  EXPECT_EQ(Wrong({"--wheels"}), "--wheels needs a value");
  EXPECT_TRUE(absl::StrContains(Wrong({"--wheels=many"}), "--wheels=many: ")) << Wrong({"--wheels=many"});
  EXPECT_TRUE(absl::StrContains(Wrong({"start"}), "not start"));
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=/none"}), "cannot read the flagfile /none"));
  const std::string path = Write("--wheels=3\n--colur=red\n");
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + path}),
                                absl::StrCat(path, ":2: unknown flag --colur: did you mean --colour?")));
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + Write("--wheels\n3\n")}), ":1: --wheels needs a value"));
  const std::string loop = Write("");
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + Write("--flagfile=" + loop)}), "name each other"));
  // Abseil's own flags are not accepted.
  EXPECT_TRUE(absl::StrContains(Wrong({"--undefok=x"}), "unknown flag"));
}

TEST_F(CommandLineTest, AFileThatCannotBeReadIsNotAnEmptyOne) {
  const std::string directory = testing::TempDir();
  EXPECT_EQ(Wrong({"--flagfile=" + directory}),
            absl::StrCat("cannot read the flagfile ", directory, ": Is a directory"));
  EXPECT_EQ(Wrong({"--flagfile=/none"}), "cannot read the flagfile /none: No such file or directory");
  ASSERT_TRUE(Parse({"--flagfile=" + Write("")}).ok());
}

TEST_F(CommandLineTest, AByteOrderMarkIsNoPartOfTheFirstFlag) {
  ASSERT_TRUE(Parse({"--flagfile=" + Write("\xef\xbb\xbf--wheels=5\r\n--colour=caf\xc3\xa9\r\n")}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 5);
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "caf\xc3\xa9");
}

TEST_F(CommandLineTest, CharactersThatCannotBeSeenAreNamed) {
  const std::string path = Write("# any \xe9 will do in a comment\n--colour=\xc2\xa0red\n");
  EXPECT_EQ(Wrong({"--flagfile=" + path}),
            absl::StrCat(path, ":2: has U+00A0 at byte 10, which cannot be seen: write the line again"));
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "");
  Write(
      "--colour=r\xe9"
      "d\n");
  EXPECT_EQ(Wrong({"--flagfile=" + path}),
            absl::StrCat(path, ":1: has byte 0xe9 at byte 11, which is not UTF-8: write the line again"));
}

TEST_F(CommandLineTest, TextReadsBack) {
  ASSERT_TRUE(Parse({"--wheels=3", "--fast"}).ok());
  const std::string text = FlagsToText(Names());
  EXPECT_EQ(text, "# how many\n--wheels=3\n\n# of the paint\n# --colour=\n\n# or slow\n--fast=true\n");
  absl::SetFlag(&FLAGS_wheels, 4);
  ASSERT_TRUE(Parse({"--flagfile=" + Write(text)}).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 3);
}

}  // namespace
}  // namespace farlook
