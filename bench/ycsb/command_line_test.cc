#include "bench/ycsb/command_line.h"

#include <fstream>
#include <string>

#include "bench/stores/db_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string Error(const std::vector<std::string>& args) {
  const absl::Status status = ParseCommandLine(args).status();
  return std::string(status.message().data(), status.message().size());
}

TEST(CommandLineTest, OptionsOfYcsbAreProperties) {
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine({"-load", "-db", "map", "-threads", "4", "-target", "100", "-s"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->load);
  EXPECT_FALSE(line->run);
  EXPECT_THAT(line->properties,
              ElementsAre(Pair("db", "map"), Pair("status", "true"), Pair("target", "100"), Pair("threadcount", "4")));
}

TEST(CommandLineTest, TwoDashesAndEqualsSignsDoToo) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine({"--db=map", "--json=out", "-t", "--status.interval", "2"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->run);
  EXPECT_EQ(line->json_path, "out");
  EXPECT_THAT(line->properties, ElementsAre(Pair("db", "map"), Pair("status.interval", "2")));
}

TEST(CommandLineTest, GivenPropertiesGoBeforeThoseOfFilesAndLaterFilesBeforeEarlier) {
  const std::string a = testing::TempDir() + "/a.properties", b = testing::TempDir() + "/b.properties";
  std::ofstream(a) << "x=1\ny=1\nz=1\n";
  std::ofstream(b) << "x=2\ny=2\n";
  const absl::StatusOr<CommandLine> line = ParseCommandLine({"-p", "x=3=3", "-P", a, "-P", b});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->properties, ElementsAre(Pair("x", "3=3"), Pair("y", "2"), Pair("z", "1")));
}

TEST(CommandLineTest, WrongOptionsAreNamed) {
  EXPECT_THAT(Error({"-thread", "4"}), HasSubstr("unknown option -thread"));
  EXPECT_THAT(Error({"load"}), HasSubstr("unknown option load"));
  EXPECT_THAT(Error({"-threads"}), HasSubstr("-threads needs a value"));
  EXPECT_THAT(Error({"-p", "x"}), HasSubstr("NAME=VALUE, not x"));
  EXPECT_THAT(Error({"-p", "=1"}), HasSubstr("NAME=VALUE, not =1"));
  EXPECT_THAT(Error({"-load=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Error({"-P", "/nowhere/at/all"}), HasSubstr("/nowhere/at/all"));
}

TEST(CommandLineTest, HelpListsTheStores) {
  DbRegistry registry;
  RegisterMapDb(&registry);
  EXPECT_TRUE(ParseCommandLine({"--help"})->help);
  EXPECT_THAT(HelpText(registry), HasSubstr("map: a hash map"));
}

}  // namespace
}  // namespace farlook::bench
