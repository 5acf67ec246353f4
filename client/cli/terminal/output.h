// Buffered writing to a file descriptor that remembers failures: a full disk must not look like success.
#ifndef FARLOOK_CLIENT_CLI_TERMINAL_OUTPUT_H_
#define FARLOOK_CLIENT_CLI_TERMINAL_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

class Output {
 public:
  // Does not own `fd`. `name` is for messages.
  Output(int fd, absl::string_view name);
  ~Output();  // flushes
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(absl::string_view bytes);
  void WriteLine(absl::string_view line);
  // Returns status().
  const absl::Status& Flush();

  // The first failure; everything written after it is dropped.
  const absl::Status& status() const { return status_; }
  // Returns whether the reader of a pipe has ended, like `head`: this failure is not reported.
  bool reader_gone() const { return reader_gone_; }

  int fd() const { return fd_; }
  bool is_terminal() const { return is_terminal_; }

 private:
  void WriteThrough(absl::string_view bytes);

  const int fd_;
  const std::string name_;
  const bool is_terminal_;
  std::string buffer_;
  absl::Status status_;
  bool reader_gone_ = false;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TERMINAL_OUTPUT_H_
