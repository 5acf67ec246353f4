// The three standard streams of the commands, and whether they are terminals.
#ifndef FARLOOK_CLIENT_CLI_TERMINAL_CONSOLE_H_
#define FARLOOK_CLIENT_CLI_TERMINAL_CONSOLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/terminal/output.h"

namespace farlook::cli {

class Console {
 public:
  Console(int in_fd, int out_fd, int err_fd);
  ~Console() { HideStatusLine(); }

  int in_fd() const { return in_fd_; }
  bool in_is_terminal() const;
  Output& out() { return out_; }
  Output& err() { return err_; }

  // The text that Error() puts before each message: "kv_cli: ", "line 7: ", or nothing.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  // Writes one line to standard error at once, after earlier text for standard output.
  void Error(absl::string_view message);
  // The same without the prefix.
  void Note(absl::string_view message);

  // Shows a changing last line on standard error, for a progress bar. It is hidden before messages. Does nothing if
  // standard error is no terminal.
  void ShowStatusLine(absl::string_view text);
  void HideStatusLine();
  // Number of columns for a status line.
  size_t width() const;
  // Number of lines of the terminal at standard output.
  size_t height() const;

 private:
  const int in_fd_;
  Output out_;
  Output err_;
  std::string prefix_;
  bool status_line_shown_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TERMINAL_CONSOLE_H_
