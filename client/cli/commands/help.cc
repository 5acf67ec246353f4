#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/json_line.h"
#include "client/cli/input/options.h"

namespace farlook::cli {
namespace {

constexpr size_t kCommandColumn = 27;
constexpr size_t kFlagColumn = 22;

// Returns "  left    right", with the further lines of `right` below its first, which moves down if `left` is long.
std::string Row(absl::string_view left, absl::string_view right, size_t column) {
  std::string row = absl::StrCat("  ", left);
  if (row.size() + 2 > column) {
    row += "\n";
  } else {
    row.append(column - row.size(), ' ');
  }
  const std::string indent(column, ' ');
  if (row.back() == '\n') row += indent;
  absl::StrAppend(&row, absl::StrReplaceAll(right, {{"\n", absl::StrCat("\n", indent)}}), "\n");
  return row;
}

std::string CommandRows() {
  std::string rows;
  for (const Command& command : Commands()) {
    absl::StrAppend(&rows, Row(absl::StrCat(command.name, " ", command.operands), command.summary, kCommandColumn));
  }
  return rows;
}

std::string FlagRow(const Flag& flag) {
  return Row(absl::StrCat("--", flag.name, flag.is_boolean() ? "" : "=", flag.metavar), flag.help, kFlagColumn);
}

std::string FlagRows(Flag::Scope scope) {
  std::string rows;
  for (const Flag& flag : AllFlags()) {
    if (flag.scope == scope) absl::StrAppend(&rows, FlagRow(flag));
  }
  return rows;
}

constexpr absl::string_view kExitCodes =
    "Exit codes:\n"
    "    0  done\n"
    "    1  a key does not exist\n"
    "    2  a condition failed: insert of a key that exists, cas of another version\n"
    "    3  an error: no server, no answer in time, no memory, unreadable file, ...\n"
    "   64  the command line is wrong; nothing was done\n"
    "  130  Ctrl-C\n"
    "The highest of several, for commands with several keys and for sessions.\n";

constexpr absl::string_view kLines =
    "A line is a command and its operands, separated by blanks. Quote what contains\n"
    "blanks: '...' is taken as it is, \"...\" knows \\\\ \\\" \\n \\r \\t \\0 \\xHH.\n"
    "Outside of quotes a backslash takes the next character as it is. # begins a\n"
    "comment. Line feeds end the values that are printed.\n";

}  // namespace

std::string HelpOverview() {
  return absl::StrCat(
      "kv_cli reads and writes a Farlook table.\n"
      "\n"
      "  kv_cli [FLAGS] COMMAND [OPERANDS]   one command\n"
      "  kv_cli [FLAGS]                      a session: commands line by line from\n"
      "                                      standard input, over one connection; on\n"
      "                                      a terminal with a prompt\n"
      "  kv_cli COMMAND --help               more about a command\n"
      "\n"
      "Commands:\n",
      CommandRows(), "\nFlags of every command:\n", FlagRows(Flag::Scope::kStart), FlagRows(Flag::Scope::kEverywhere),
      "\nFlags may stand anywhere; after -- nothing is a flag: kv_cli put KEY -- -value-\n\n", kExitCodes,
      "\nSessions:\n", kLines,
      "Errors go to standard error with the number of the line; the session goes on,\n"
      "but ends once the server is gone. On a terminal there are completion and\n"
      "history, which is kept in $XDG_STATE_HOME/farlook_history, else in\n"
      "~/.farlook_history. --nohistory, or an empty FARLOOK_HISTORY, keeps none; a line\n"
      "that begins with a blank is not kept.\n"
      "\n"
      "Example:\n"
      "  export FARLOOK_ADDRESS=shm:///run/farlook\n"
      "  kv_cli put greeting 'hello, world'\n"
      "  kv_cli get greeting\n");
}

std::string HelpInSession() {
  return absl::StrCat("Commands (help COMMAND explains one):\n", CommandRows(),
                      Row("quit", "leave; so does the end of the input (Ctrl-D)", kCommandColumn), "\n", kLines);
}

std::string HelpOn(const Command& command) {
  std::string text = absl::StrCat("kv_cli [FLAGS] ", command.name, command.operands.empty() ? "" : " ",
                                  command.operands, "\n\n", command.summary, "\n");
  if (!command.details.empty()) absl::StrAppend(&text, "\n", command.details);
  if (!command.flags.empty()) {
    text += "\nFlags of this command:\n";
    for (const absl::string_view name : command.flags) absl::StrAppend(&text, FlagRow(*FindFlag(name)));
  }
  absl::StrAppend(
      &text, "\nFlags of every command: --address --timeout_ms --read_only --wait\n--key_encoding --json --help\n");
  return text;
}

std::string HelpAnswer(std::string text, bool json) {
  return json ? JsonLine().Bytes("help", text).ToString() + "\n" : std::move(text);
}

}  // namespace farlook::cli
