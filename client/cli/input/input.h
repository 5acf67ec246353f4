// Reads files and standard input: whole, or line by line with numbers.
#ifndef FARLOOK_CLIENT_CLI_INPUT_INPUT_H_
#define FARLOOK_CLIENT_CLI_INPUT_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

// A file descriptor to read from. "-" is standard input, which is not closed.
class Input {
 public:
  // The error names `path` and the cause.
  static absl::StatusOr<Input> Open(const std::string& path, int stdin_fd);
  // Does not own `fd`.
  static Input Borrow(int fd, absl::string_view name) { return Input(fd, /*owned=*/false, name); }
  ~Input();
  Input(Input&& other) noexcept;
  Input& operator=(Input&&) = delete;

  // Reads at most `bytes`; 0 at the end. CANCELLED after Ctrl-C.
  absl::StatusOr<size_t> Read(char* to, size_t bytes) const;
  // Reads the rest. OUT_OF_RANGE if it is longer than `max_bytes`.
  absl::StatusOr<std::string> ReadAll(size_t max_bytes) const;

  // Returns whether Read() would return at once.
  bool ready() const;
  bool is_terminal() const;
  // Returns the length of a regular file, else 0.
  uint64_t file_bytes() const;
  const std::string& name() const { return name_; }

 private:
  Input(int fd, bool owned, absl::string_view name) : fd_(fd), owned_(owned), name_(name) {}

  int fd_;
  bool owned_;
  std::string name_;
};

class LineReader {
 public:
  // Does not own `input`. A line longer than `max_line_bytes` is skipped, so that memory is bounded.
  LineReader(const Input* input, size_t max_line_bytes) : input_(*input), max_line_bytes_(max_line_bytes) {}

  enum class Result {
    kLine,
    kTooLong,  // the line is skipped
    kEnd,
    kError,  // status() says why; nothing more can be read
  };
  // Reads the next line, without its line feed. The last line need not have one.
  Result Next(std::string* line);

  // Returns whether Next() would return without waiting for more input. May be wrong about a partial line.
  bool ready() const { return at_end_ || buffer_.find('\n', position_) != std::string::npos || input_.ready(); }

  uint64_t line_number() const { return line_number_; }  // of the last line returned by Next(); the first is 1
  uint64_t consumed_bytes() const { return consumed_bytes_; }
  const absl::Status& status() const { return status_; }

 private:
  bool Fill();

  const Input& input_;
  const size_t max_line_bytes_;
  std::string buffer_;
  size_t position_ = 0;
  bool at_end_ = false;
  uint64_t line_number_ = 0;
  uint64_t read_bytes_ = 0;
  uint64_t consumed_bytes_ = 0;
  absl::Status status_;
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_INPUT_H_
