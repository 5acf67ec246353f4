#include "client/cli/terminal/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace farlook::cli {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

Output::Output(int fd, absl::string_view name) : fd_(fd), name_(name), is_terminal_(isatty(fd) == 1) {}

Output::~Output() { Flush(); }

void Output::Write(absl::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) Flush();
  if (bytes.size() > kBufferBytes) return WriteThrough(bytes);
  buffer_.append(bytes.data(), bytes.size());
}

void Output::WriteLine(absl::string_view line) {
  Write(line);
  Write("\n");
}

const absl::Status& Output::Flush() {
  WriteThrough(buffer_);
  buffer_.clear();
  return status_;
}

void Output::WriteThrough(absl::string_view bytes) {
  while (!bytes.empty() && status_.ok()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // The descriptor is shared with another program, which made it non-blocking.
      pollfd ready = {fd_, POLLOUT, 0};
      poll(&ready, 1, /*timeout=*/-1);
    } else if (errno != EINTR) {
      reader_gone_ = errno == EPIPE;
      status_ = absl::ErrnoToStatus(errno, absl::StrCat("cannot write to ", name_));
    }
  }
}

}  // namespace farlook::cli
