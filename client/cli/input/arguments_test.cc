#include "client/cli/input/arguments.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Arguments Parse(const std::vector<std::string>& words, const Options& defaults = {}) {
  absl::StatusOr<Arguments> arguments = ParseArguments(words, defaults);
  EXPECT_TRUE(arguments.ok()) << arguments.status();
  return arguments.ok() ? *arguments : Arguments();
}

std::vector<std::string> Operands(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const Operand& operand : Parse(words).operands) texts.push_back(operand.text);
  return texts;
}

std::string Error(const std::vector<std::string>& words) {
  return std::string(ParseArguments(words, {}).status().message());
}

TEST(ArgumentsTest, FlagsStandAnywhere) {
  const Arguments arguments = Parse({"--address=shm:///x", "get", "--json", "key", "--timeout_ms", "5"});
  EXPECT_EQ(arguments.options.address, "shm:///x");
  EXPECT_TRUE(arguments.options.json);
  EXPECT_EQ(arguments.options.timeout_ms, 5);
  EXPECT_EQ(arguments.flags.size(), 3u);
  EXPECT_THAT(Operands({"--json", "get", "key"}), ElementsAre("get", "key"));
}

TEST(ArgumentsTest, BooleansHaveEveryUsualForm) {
  EXPECT_TRUE(Parse({"--json"}).options.json);
  EXPECT_TRUE(Parse({"--json=true"}).options.json);
  EXPECT_FALSE(Parse({"--json=false"}).options.json);
  EXPECT_FALSE(Parse({"--json", "--nojson"}).options.json);
  EXPECT_FALSE(Parse({"--nohistory"}).options.history);
  EXPECT_TRUE(Parse({"--read-only"}).options.read_only) << "a dash for an underscore";
  EXPECT_TRUE(Parse({"-h"}).options.help);
  // Expect: a boolean takes no word after it.
  EXPECT_THAT(Operands({"--json", "false"}), ElementsAre("false"));
}

TEST(ArgumentsTest, LastOneWinsAndDefaultsStay) {
  Options defaults;
  defaults.json = true;
  defaults.address = "shm:///default";
  const Arguments arguments = Parse({"--timeout_ms=1", "--timeout_ms=2"}, defaults);
  EXPECT_EQ(arguments.options.timeout_ms, 2);
  EXPECT_TRUE(arguments.options.json);
  EXPECT_EQ(arguments.options.address, "shm:///default");
}

TEST(ArgumentsTest, AfterTwoDashesNothingIsAFlag) {
  EXPECT_THAT(Operands({"put", "key", "--", "-value-"}), ElementsAre("put", "key", "-value-"));
  EXPECT_THAT(Operands({"put", "--", "--json", "--"}), ElementsAre("put", "--json", "--"));
  EXPECT_THAT(Operands({"--", "get", "k"}), ElementsAre("get", "k"));
  // Expect: a dash is standard input before --, and a dash after it.
  EXPECT_TRUE(Parse({"put", "k", "-"}).operands[2].is_stdin());
  EXPECT_FALSE(Parse({"put", "k", "--", "-"}).operands[2].is_stdin());
}

TEST(ArgumentsTest, EmptyWordsAreOperands) { EXPECT_THAT(Operands({"put", "k", ""}), ElementsAre("put", "k", "")); }

TEST(ArgumentsTest, ErrorsNameTheWordAndTheWayOut) {
  EXPECT_THAT(Error({"--jsn"}), HasSubstr("unknown flag \"--jsn\": did you mean --json?"));
  EXPECT_THAT(Error({"put", "k", "-value-"}), HasSubstr("write -- before it"));
  EXPECT_THAT(Error({"-json"}), HasSubstr("did you mean --json?"));
  EXPECT_THAT(Error({"--noaddress"}), HasSubstr("unknown flag"));
  EXPECT_THAT(Error({"--timeout_ms"}), HasSubstr("--timeout_ms needs a value: --timeout_ms=N"));
  EXPECT_THAT(Error({"--file", "--json"}), HasSubstr("--file needs a value"));
  EXPECT_THAT(Error({"--timeout_ms=soon"}), HasSubstr("--timeout_ms: \"soon\" is not a whole number from 1"));
  EXPECT_THAT(Error({"--timeout_ms=0"}), HasSubstr("from 1"));
  EXPECT_THAT(Error({"--timeout_ms=99999999999999999999"}), HasSubstr("from 1"));
  EXPECT_THAT(Error({"--json=perhaps"}), HasSubstr("neither true nor false"));
  EXPECT_THAT(Error({"--key_encoding=utf16"}), HasSubstr("raw, hex, escaped"));
  EXPECT_THAT(Error({"--format=csv"}), HasSubstr("json, tsv"));
}

TEST(ArgumentsTest, ADashCanBeAFlagsValue) {
  EXPECT_EQ(*Parse({"--file", "-"}).options.file, "-");
  EXPECT_EQ(*Parse({"--file=--odd"}).options.file, "--odd");
  EXPECT_EQ(*Parse({"--file="}).options.file, "");
}

TEST(OptionsTest, EveryFlagHasANameOfItsOwnAndHelp) {
  std::set<std::string> names;
  for (const Flag& flag : AllFlags()) {
    EXPECT_TRUE(names.insert(std::string(flag.name)).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    EXPECT_EQ(FindFlag(flag.name), &flag);
    Options options;
    if (flag.is_boolean()) {
      EXPECT_TRUE(flag.set("false", &options).ok());
    }
  }
}

}  // namespace
}  // namespace farlook::cli
