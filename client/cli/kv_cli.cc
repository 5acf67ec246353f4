#include "client/cli/kv_cli.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/runner.h"
#include "client/cli/context/command.h"
#include "client/cli/input/arguments.h"
#include "client/cli/session.h"
#include "client/cli/terminal/console.h"
#include "client/cli/terminal/explain.h"
#include "farlook/version.h"

namespace farlook::cli {
namespace {

// The one connection of this process, made when it is first needed, and again after a failure.
class Connection {
 public:
  explicit Connection(const Connect& connect) : connect_(connect) {}

  absl::StatusOr<Store*> Get(const Options& options) {
    if (store_ == nullptr) {
      if (options.address.empty()) {
        return absl::InvalidArgumentError(
            "no address: give --address=ADDRESS (such as shm:///run/farlook), or set FARLOOK_ADDRESS");
      }
      absl::StatusOr<std::unique_ptr<Store>> store = connect_(options);
      if (!store.ok()) return store.status();
      store_ = *std::move(store);
    }
    return store_.get();
  }

 private:
  const Connect& connect_;
  std::unique_ptr<Store> store_;
};

ExitCode Run(const std::vector<std::string>& words, Console* console, const Connect& connect) {
  absl::StatusOr<Arguments> arguments = ParseArguments(words, Options());
  if (!arguments.ok()) {
    if (std::find(words.begin(), words.end(), "--json") != words.end()) {
      AnswerUsageError(*console, arguments.status().message());
    }
    console->Error(absl::StrCat(arguments.status().message(), "; see: kv_cli help"));
    return ExitCode::kUsage;
  }
  Options& options = arguments->options;
  if (const char* address = getenv("FARLOOK_ADDRESS"); options.address.empty() && address != nullptr) {
    options.address = address;
  }
  if (options.version) {
    console->out().WriteLine("kv_cli (Farlook) " FARLOOK_VERSION);
    return ExitCode::kOk;
  }

  Connection connection(connect);
  const StoreSource source = [&](const Options& o) { return connection.Get(o); };
  if (!arguments->operands.empty()) return Runner(Mode::kOneShot, console, source).Run(*arguments);
  if (options.help) {
    console->out().Write(HelpAnswer(HelpOverview(), options.json));
    return ExitCode::kOk;
  }
  for (const Flag* flag : arguments->flags) {
    if (flag->scope != Flag::Scope::kCommand) continue;
    const std::string why = absl::StrCat("--", flag->name, " is for a command, and there is none");
    if (options.json) AnswerUsageError(*console, why);
    console->Error(absl::StrCat(why, "; see: kv_cli help"));
    return ExitCode::kUsage;
  }
  const bool on_terminal = console->in_is_terminal() && (console->out().is_terminal() || console->err().is_terminal());
  return on_terminal ? RunInteractive(options, console, source) : RunBatch(options, console, source);
}

}  // namespace

int KvCli(int argc, char** argv, const Connect& connect) {
  // A closed pipe is an error of write(), here and in the client; so is a limit of file sizes.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  Console console(STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
  console.set_prefix("kv_cli: ");
  ExitCode code = Run(std::vector<std::string>(argv + 1, argv + argc), &console, connect);
  if (!console.out().Flush().ok()) code = Worst(code, ExitCode::kError);
  return static_cast<int>(code);
}

}  // namespace farlook::cli
