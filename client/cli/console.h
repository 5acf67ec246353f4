// The three standard streams as the commands see them, and who sits there.
#ifndef FARLOOK_CLIENT_CLI_CONSOLE_H_
#define FARLOOK_CLIENT_CLI_CONSOLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/output.h"

namespace farlook::cli {

class Console {
 public:
  Console(int in_fd, int out_fd, int err_fd);
  ~Console() { HideStatusLine(); }

  int in_fd() const { return in_fd_; }
  bool in_is_terminal() const;
  Output& out() { return out_; }
  Output& err() { return err_; }

  // What Error() puts before each message: "kv_cli: ", "line 7: ", or nothing.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  // Writes one line to standard error at once, after what was written to standard output before.
  void Error(absl::string_view message);
  // The same without the prefix.
  void Note(absl::string_view message);

  // A last line of standard error that changes, for a progress bar. It makes way for messages. Does nothing if standard
  // error is no terminal.
  void ShowStatusLine(absl::string_view text);
  void HideStatusLine();
  // Columns that a status line may take.
  size_t width() const;

 private:
  const int in_fd_;
  Output out_;
  Output err_;
  std::string prefix_;
  bool status_line_shown_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONSOLE_H_
