#include "client/cli/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/cli/input/encoding.h"

namespace farlook::cli {

Console::Console(int in_fd, int out_fd, int err_fd)
    : in_fd_(in_fd), out_(out_fd, "standard output"), err_(err_fd, "standard error") {}

bool Console::in_is_terminal() const { return isatty(in_fd_) == 1; }

void Console::Error(absl::string_view message) { Note(absl::StrCat(prefix_, message)); }

void Console::Note(absl::string_view message) {
  out_.Flush();
  HideStatusLine();
  // A message may contain text from a server.
  err_.WriteLine(err_.is_terminal() ? Printable(message) : std::string(message));
  err_.Flush();
}

void Console::ShowStatusLine(absl::string_view text) {
  if (!err_.is_terminal()) return;
  // To the first column; after the text, clear the rest of the line.
  err_.Write(absl::StrCat("\r", text, "\x1b[K"));
  err_.Flush();
  status_line_shown_ = true;
}

void Console::HideStatusLine() {
  if (!status_line_shown_) return;
  status_line_shown_ = false;
  err_.Write("\r\x1b[K");
  err_.Flush();
}

size_t Console::width() const {
  struct winsize size = {};
  const bool known = ioctl(err_.fd(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free: some terminals wrap when it is written.
  return (known ? size.ws_col : 80) - 1;
}

size_t Console::height() const {
  struct winsize size = {};
  return ioctl(out_.fd(), TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

}  // namespace farlook::cli
