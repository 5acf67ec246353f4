#include "client/cli/input/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/input/interrupt.h"

namespace farlook::cli {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

// poll() reports nothing for a descriptor that cannot be read.
bool CanBeRead(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY;
}

}  // namespace

absl::StatusOr<Input> Input::Open(const std::string& path, int stdin_fd) {
  if (path == "-") return Borrow(stdin_fd, "standard input");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return Input(fd, /*owned=*/true, path);
}

Input::~Input() {
  if (owned_) close(fd_);
}

Input::Input(Input&& other) noexcept
    : fd_(other.fd_), owned_(std::exchange(other.owned_, false)), name_(std::move(other.name_)) {}

absl::StatusOr<size_t> Input::Read(char* to, size_t bytes) const {
  while (true) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    struct pollfd poll_fd = {.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = poll(&poll_fd, 1, kMostWaitMs);
    if ((ready == 0 && CanBeRead(fd_)) || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = read(fd_, to, bytes);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", name_));
  }
}

absl::StatusOr<std::string> Input::ReadAll(size_t max_bytes) const {
  std::string all;
  while (true) {
    const size_t old_size = all.size();
    all.resize(old_size + kChunkBytes);
    const absl::StatusOr<size_t> got = Read(&all[old_size], kChunkBytes);
    if (!got.ok()) return got.status();
    all.resize(old_size + *got);
    if (*got == 0) return all;
    if (all.size() > max_bytes) {
      return absl::OutOfRangeError(absl::StrCat(name_, " holds more than ", max_bytes, " bytes"));
    }
  }
}

bool Input::ready() const {
  struct pollfd poll_fd = {.fd = fd_, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, 0) != 0;  // errors are found by reading
}

bool Input::is_terminal() const { return isatty(fd_) == 1; }

uint64_t Input::file_bytes() const {
  struct stat status = {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<uint64_t>(status.st_size);
}

LineReader::Result LineReader::Next(std::string* line) {
  line->clear();
  bool too_long = false;
  size_t searched = position_;
  size_t end;
  while ((end = buffer_.find('\n', searched)) == std::string::npos && !at_end_) {
    if (buffer_.size() - position_ > max_line_bytes_) {
      too_long = true;
      position_ = buffer_.size();
    }
    searched = buffer_.size() - position_;  // beginning of the new bytes, as Fill() moves the rest to the front
    if (!Fill()) return Result::kError;
  }
  const bool has_line_feed = end != std::string::npos;
  if (!has_line_feed) end = buffer_.size();
  if (!has_line_feed && end == position_ && !too_long) return Result::kEnd;
  too_long |= end - position_ > max_line_bytes_;
  if (!too_long) line->assign(buffer_, position_, end - position_);
  position_ = end + (has_line_feed ? 1 : 0);
  ++line_number_;
  consumed_bytes_ = read_bytes_ - (buffer_.size() - position_);
  return too_long ? Result::kTooLong : Result::kLine;
}

// Drops consumed bytes and appends a chunk.
bool LineReader::Fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kChunkBytes);
  const absl::StatusOr<size_t> got = input_.Read(&buffer_[old_size], kChunkBytes);
  buffer_.resize(old_size + got.value_or(0));
  if (!got.ok()) {
    status_ = got.status();
    return false;
  }
  at_end_ = *got == 0;
  read_bytes_ += *got;
  return true;
}

}  // namespace farlook::cli
