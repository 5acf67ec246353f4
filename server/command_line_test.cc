#include "server/command_line.h"

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

namespace farlook::server {
namespace {

const std::vector<absl::string_view>& Names() {
  static const auto* const names = new std::vector<absl::string_view>{"wheels", "colour", "fast"};
  return *names;
}

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
  static std::string Wrong(const std::vector<std::string>& words) {
    return std::string(ParseCommandLine(words, Names()).message());
  }
};

TEST_F(CommandLineTest, ReadsAllForms) {
  ASSERT_TRUE(ParseCommandLine({"--wheels", "3", "-colour=red=blue", "--fast"}, Names()).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 3);
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "red=blue");
  EXPECT_TRUE(absl::GetFlag(FLAGS_fast));
  ASSERT_TRUE(ParseCommandLine({"--nofast"}, Names()).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_fast));
}

TEST_F(CommandLineTest, ReadsFiles) {
  const std::string path = Write("# a car\n\n  --wheels=5  \n--fast\n");
  ASSERT_TRUE(ParseCommandLine({"--flagfile=" + path, "--colour=red"}, Names()).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 5);
  EXPECT_TRUE(absl::GetFlag(FLAGS_fast));
  EXPECT_EQ(absl::GetFlag(FLAGS_colour), "red");
}

TEST_F(CommandLineTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(Wrong({"--wheel=3"}), "unknown flag --wheel: did you mean --wheels?; see kv_server --help");
  EXPECT_EQ(Wrong({"--nowheels"}), "unknown flag --nowheels: did you mean --wheels?; see kv_server --help");
  EXPECT_EQ(Wrong({"--wheels"}), "--wheels needs a value");
  EXPECT_TRUE(absl::StrContains(Wrong({"--wheels=many"}), "--wheels=many: ")) << Wrong({"--wheels=many"});
  EXPECT_TRUE(absl::StrContains(Wrong({"drive"}), "not drive"));
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=/none"}), "cannot read the flagfile /none"));
  const std::string path = Write("--wheels=3\n--colur=red\n");
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + path}),
                                absl::StrCat(path, ":2: unknown flag --colur: did you mean --colour?")));
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + Write("--wheels\n3\n")}), ":1: --wheels needs a value"));
  const std::string loop = Write("");
  EXPECT_TRUE(absl::StrContains(Wrong({"--flagfile=" + Write("--flagfile=" + loop)}), "name each other"));
  // Abseil has flags of its own, which are none of ours.
  EXPECT_TRUE(absl::StrContains(Wrong({"--undefok=x"}), "unknown flag"));
}

TEST_F(CommandLineTest, TextReadsBack) {
  ASSERT_TRUE(ParseCommandLine({"--wheels=3", "--fast"}, Names()).ok());
  const std::string text = FlagsToText(Names());
  EXPECT_EQ(text, "# how many\n--wheels=3\n\n# of the paint\n# --colour=\n\n# or slow\n--fast=true\n");
  absl::SetFlag(&FLAGS_wheels, 4);
  ASSERT_TRUE(ParseCommandLine({"--flagfile=" + Write(text)}, Names()).ok());
  EXPECT_EQ(absl::GetFlag(FLAGS_wheels), 3);
}

}  // namespace
}  // namespace farlook::server
