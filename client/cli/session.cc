#include "client/cli/session.h"

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/context/command.h"
#include "client/cli/input/input.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/words.h"
#include "client/cli/line_editor.h"
#include "client/cli/terminal/explain.h"
#include "kv/layout/limits.h"

namespace farlook::cli {
namespace {

// The longest key and value, each byte written as \xHH, and flags.
constexpr size_t kMaxLineBytes = 4 * (kv::kMaxValueBytes + kv::kMaxKeyBytes) + 65536;

bool IsQuit(const std::vector<std::string>& words) {
  return words.size() == 1 && (words[0] == "quit" || words[0] == "exit");
}

// Runs one line; returns nullopt if it ends the session.
std::optional<ExitCode> RunLine(const std::string& line, const Options& options, Console* console, Runner* runner) {
  const absl::StatusOr<std::vector<std::string>> words = SplitWords(line);
  if (!words.ok()) {
    if (options.json) AnswerUsageError(*console, words.status().message());
    console->Error(words.status().message());
    return ExitCode::kUsage;
  }
  if (words->empty()) return ExitCode::kOk;
  if (IsQuit(*words)) return std::nullopt;
  return runner->Run(*words, options);
}

}  // namespace

ExitCode RunBatch(const Options& options, Console* console, StoreSource source) {
  Runner runner(Mode::kBatch, console, std::move(source));
  const Input input = Input::Borrow(console->in_fd(), "standard input");
  LineReader reader(&input, kMaxLineBytes);
  ExitCode worst = ExitCode::kOk;
  std::string line;
  while (true) {
    const LineReader::Result result = reader.Next(&line);
    if (result == LineReader::Result::kEnd) return worst;
    console->set_prefix(absl::StrCat("line ", reader.line_number(), ": "));
    if (result == LineReader::Result::kError) {
      console->set_prefix("kv_cli: ");
      console->Error(absl::StrCat("after line ", reader.line_number(), ": ", reader.status().message()));
      return Worst(worst, ExitCodeOf(reader.status()));
    }
    if (result == LineReader::Result::kTooLong) {
      const std::string why = absl::StrCat("longer than ", kMaxLineBytes, " bytes");
      if (options.json) AnswerUsageError(*console, why);
      console->Error(why);
      worst = Worst(worst, ExitCode::kUsage);
      continue;
    }
    const std::optional<ExitCode> code = RunLine(line, options, console, &runner);
    if (!code.has_value()) return worst;
    worst = Worst(worst, *code);
    if (runner.server_gone()) {
      console->Error("the session ends: the connection to the server is lost");
      return worst;
    }
    if (!console->out().status().ok()) return worst;
    if (Interrupted()) return Worst(worst, ExitCode::kInterrupted);
  }
}

ExitCode RunInteractive(const Options& options, Console* console, StoreSource source) {
  CatchInterrupts();
  if (const absl::StatusOr<Store*> store = source(options); !store.ok()) {
    console->Error(Explain(store.status(), options));
    return store.status().code() == absl::StatusCode::kInvalidArgument ? ExitCode::kUsage : ExitCode::kError;
  }
  console->set_prefix("");
  // If the results go to a file, the prompt must not.
  FILE* const terminal = console->out().is_terminal() ? stdout : stderr;
  LineEditor editor("farlook> ", stdin, terminal, stderr);
  const std::string history = options.history ? HistoryPath() : "";
  const auto warn = [&](const absl::Status& status) {
    if (!status.ok()) console->Note(absl::StrCat("warning: ", status.message()));
  };
  if (!history.empty()) warn(editor.LoadHistory(history));
  console->Note(absl::StrCat("Connected to ", options.address, ". help lists the commands, Ctrl-D leaves."));

  Runner runner(Mode::kInteractive, console, std::move(source));
  std::string line;
  while (true) {
    const LineEditor::Result result = editor.Read(&line);
    if (result == LineEditor::Result::kEnd) break;
    if (result == LineEditor::Result::kAbandoned) continue;
    editor.Remember(line);
    ForgetInterrupt();
    if (!RunLine(line, options, console, &runner).has_value()) break;
  }
  if (!history.empty()) warn(editor.SaveHistory(history));
  return console->out().status().ok() ? ExitCode::kOk : ExitCode::kError;
}

}  // namespace farlook::cli
