#include "server/group/process_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

std::string PathOf(absl::string_view folder, uint64_t incarnation) {
  return absl::StrCat(folder, "/", absl::Hex(incarnation, absl::kZeroPad16));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessLock>> ProcessLock::Take(absl::string_view folder, uint64_t incarnation) {
  const std::string path = PathOf(folder, incarnation);
  if (mkdir(std::string(folder).c_str(), 0770) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat(folder, " cannot be made"));
  }
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, " cannot be made"));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<ProcessLock>(new ProcessLock(file));
  const absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat(path, " cannot be locked"));
  close(file);
  return status;
}

ProcessLock::~ProcessLock() { close(file_); }

// A missing file proves nothing: the folder may have been emptied.
absl::StatusOr<bool> ProcessLock::HasEnded(absl::string_view folder, uint64_t incarnation) {
  const std::string path = PathOf(folder, incarnation);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) return false;
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, " cannot be opened"));
  const bool ended = flock(file, LOCK_EX | LOCK_NB) == 0;
  close(file);
  return ended;
}

}  // namespace farlook::server
