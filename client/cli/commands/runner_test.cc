#include "client/cli/commands/runner.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
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
  // Expect: words of other stores lead to the equivalent command, and not to the one with similar spelling.
  for (const auto& [theirs, advice] : {std::pair<std::string, std::string>{"set", "use put;"},
                                       {"SET", "use put;"},
                                       {"del", "use delete;"},
                                       {"incrby", "use incr KEY DELTA;"},
                                       {"keys", "scan PREFIX"}}) {
    EXPECT_EQ(Run({theirs, "k"}), ExitCode::kUsage);
    EXPECT_THAT(Err(), HasSubstr(advice));
    EXPECT_EQ(Run({"help", theirs}), ExitCode::kUsage);
  }
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
  EXPECT_THAT(Err(), HasSubstr("--address can only be given when kv_cli starts"));
  EXPECT_THAT(Err(), HasSubstr("see: help get"));
}

// A program reads one line for each request, this one too.
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
  EXPECT_THAT((Run({"help", "export"}), Out()), HasSubstr("kv_cli export --prefix= >"));
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
  // Expect: starting a server is not suggested if this host does not know its name.
  status = absl::UnavailableError("cannot connect to tcp://kv:7905: the name kv does not resolve: no such name");
  EXPECT_EQ(runner.Run(get, options), ExitCode::kError);
  EXPECT_THAT(err.Content(), HasSubstr("shm:///gone cannot be reached: the name kv does not resolve: no such name"));
  status = absl::InvalidArgumentError("no such scheme");
  EXPECT_EQ(runner.Run(get, options), ExitCode::kUsage);
  EXPECT_FALSE(runner.server_gone());
  // Expect: a command that needs no server does not connect.
  const std::vector<std::string> help = {"help"};
  EXPECT_EQ(runner.Run(help, options), ExitCode::kOk);
}

// Otherwise a server that refuses writers could not be read.
TEST_F(RunnerTest, ACommandThatReadsAsksForNoRightToWrite) {
  ScratchFile out, err;
  Console console(0, out.fd(), err.fd());
  Options seen;
  const StoreSource source = [&](const Options& options) {
    seen = options;
    return absl::StatusOr<Store*>(absl::UnavailableError("down"));
  };
  const auto run = [&](Mode mode, const std::vector<std::string>& words) {
    seen = Options();
    Options options;
    options.address = "shm:///gone";
    EXPECT_EQ(Runner(mode, &console, source).Run(words, options), ExitCode::kError);
  };
  for (const char* words : {"get k", "exists k", "ttl k", "export k"}) {
    run(Mode::kOneShot, absl::StrSplit(words, ' '));
    EXPECT_TRUE(seen.read_only && !seen.as_operator) << words;
  }
  for (const char* words : {"ping", "stat", "watch", "top", "clients", "kick 1"}) {
    run(Mode::kOneShot, absl::StrSplit(words, ' '));
    EXPECT_TRUE(seen.read_only && seen.as_operator) << words;
  }
  for (const char* words : {"put k v", "delete k", "incr k", "touch k 1s", "gettouch k 1s"}) {
    run(Mode::kOneShot, absl::StrSplit(words, ' '));
    EXPECT_FALSE(seen.read_only || seen.as_operator) << words;
  }
  // Expect: a session has one connection for all its commands.
  run(Mode::kBatch, {"get", "k"});
  EXPECT_FALSE(seen.read_only || seen.as_operator);
}

// Otherwise a program that waits for a reply to each request would wait for ever.
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
