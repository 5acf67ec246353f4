#include "client/cli/runner.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

class RunnerTest : public CommandTest {};

TEST_F(RunnerTest, UnknownCommandsAreGuessed) {
  EXPECT_EQ(Run({"gte", "k"}), ExitCode::kUsage);
  EXPECT_EQ(Err(), "kv_cli: unknown command \"gte\": did you mean get?; see: kv_cli help\n");
  EXPECT_EQ(Run({"frobnicate"}), ExitCode::kUsage);
  EXPECT_EQ(Err(), "kv_cli: unknown command \"frobnicate\"; see: kv_cli help\n");
  EXPECT_EQ(Run({""}), ExitCode::kUsage);
  EXPECT_EQ(Run({"help", "gte"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean get?"));
}

TEST_F(RunnerTest, OperandsAreCounted) {
  EXPECT_EQ(Run({"get"}), ExitCode::kUsage);
  EXPECT_EQ(Err(), "kv_cli: get: operands are missing: get KEY...; see: kv_cli help get\n");
  EXPECT_EQ(Run({"put", "k", "a", "value"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("too many operands: put KEY [VALUE] (quote what contains spaces)"));
  EXPECT_EQ(Run({"top", "now"}), ExitCode::kUsage);
  EXPECT_EQ(store().operations(), 0u);
}

TEST_F(RunnerTest, FlagsOfOtherCommandsAreRefused) {
  EXPECT_EQ(Run({"get", "k", "--insert_only"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--insert_only is not for get, only for import"));
  EXPECT_EQ(Run({"get", "--jsn", "k"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("did you mean --json?"));
  set_mode(Mode::kBatch);
  EXPECT_EQ(Run({"get", "k", "--address=shm:///other"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--address is for the start of kv_cli"));
  EXPECT_THAT(Err(), HasSubstr("see: help get"));
}

// A program reads a line for each request, this one too.
TEST_F(RunnerTest, WithJsonHelpIsOneLine) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help", "--json"}, {"help", "get", "--json"}, {"get", "--help", "--json"}}) {
    EXPECT_EQ(Run(words), ExitCode::kOk);
    const std::string out = Out();
    EXPECT_THAT(out, HasSubstr("{\"help\":\"kv_cli "));
    EXPECT_EQ(out.find('\n'), out.size() - 1) << out;
  }
}

TEST_F(RunnerTest, EveryCommandHasHelp) {
  EXPECT_EQ(Run({"help"}), ExitCode::kOk);
  const std::string overview = Out();
  EXPECT_THAT(overview, HasSubstr("Exit codes:"));
  EXPECT_THAT(overview, HasSubstr("FARLOOK_ADDRESS"));
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    EXPECT_THAT(overview, HasSubstr("\n  " + name + " "));
    EXPECT_EQ(Run({"help", name}), ExitCode::kOk);
    const std::string help = Out();
    EXPECT_THAT(help, HasSubstr("kv_cli [FLAGS] " + name));
    EXPECT_EQ(Run({name, "--help"}), ExitCode::kOk) << "without its operands too";
    EXPECT_EQ(Out(), help);
    for (const absl::string_view flag : command.flags) {
      ASSERT_NE(FindFlag(flag), nullptr) << flag;
      EXPECT_EQ(FindFlag(flag)->scope, Flag::Scope::kCommand);
      EXPECT_THAT(help, HasSubstr("--" + std::string(flag)));
    }
  }
  EXPECT_THAT((Run({"help", "export"}), Out()), HasSubstr("the table has no\nscan"));
  set_mode(Mode::kInteractive);
  EXPECT_EQ(Run({"help"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("quit"));
}

TEST_F(RunnerTest, HelpFitsATerminal) {
  std::vector<std::vector<std::string>> pages = {{"help"}};
  for (const Command& command : Commands()) pages.push_back({"help", std::string(command.name)});
  for (const std::vector<std::string>& page : pages) {
    Run(page);
    size_t columns = 0;
    for (const char c : Out()) {
      columns = c == '\n' ? 0 : columns + 1;
      ASSERT_LE(columns, 80u) << Out();
    }
    EXPECT_EQ(Out().back(), '\n');
  }
}

TEST_F(RunnerTest, NoServerIsAnErrorAndABadAddressAMistake) {
  ScratchFile out;
  ScratchFile err;
  Console console(0, out.fd(), err.fd());
  Options options;
  options.address = "shm:///gone";
  absl::Status status = absl::UnavailableError("connection refused");
  Runner runner(Mode::kOneShot, &console, [&](const Options&) { return absl::StatusOr<Store*>(status); });
  const std::vector<std::string> get = {"get", "k"};
  EXPECT_EQ(runner.Run(get, options), ExitCode::kError);
  EXPECT_TRUE(runner.server_gone());
  EXPECT_THAT(err.Content(),
              HasSubstr("no server answers at shm:///gone: start it with kv_server --listen=shm:///gone"));
  status = absl::InvalidArgumentError("no such scheme");
  EXPECT_EQ(runner.Run(get, options), ExitCode::kUsage);
  EXPECT_FALSE(runner.server_gone());
  // Expect: what needs no server does not ask for one.
  const std::vector<std::string> help = {"help"};
  EXPECT_EQ(runner.Run(help, options), ExitCode::kOk);
}

// A program that waits for an answer to each request would wait for ever.
TEST_F(RunnerTest, WithJsonAMistakeIsAnsweredToo) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--json", "nonsense"}, Words{"put", "--json"}, Words{"--json", "get", "k", "--nosuch"}, Words{"--json"},
        Words{"get", "k", "--json", "--wait", "--file=x"}}) {
    EXPECT_EQ(Run(words), ExitCode::kUsage);
    const std::string out = Out();
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
    EXPECT_THAT(out, HasSubstr("{\"error\":\"invalid_argument\",\"message\":\""));
  }
  EXPECT_EQ(Run({"nonsense"}), ExitCode::kUsage);
  EXPECT_EQ(Out(), "");
}

TEST_F(RunnerTest, AnswersThatCannotBeWrittenAreAnError) {
  store().Put("k", "v");
  const int full = open("/dev/full", O_WRONLY);
  ScratchFile err;
  {
    Console console(0, full, err.fd());
    Runner runner(Mode::kOneShot, &console, [this](const Options&) { return &store(); });
    const std::vector<std::string> get = {"get", "k"};
    EXPECT_EQ(runner.Run(get, Options()), ExitCode::kError);
  }
  close(full);
  EXPECT_THAT(err.Content(), HasSubstr("cannot write to standard output: No space left"));
}

}  // namespace
}  // namespace farlook::cli
