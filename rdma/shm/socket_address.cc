#include "rdma/shm/socket_address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"

namespace farlook::rdma::shm {
namespace {

constexpr int kBacklog = 1024;  // the kernel cuts it to net.core.somaxconn

// The owner may remove its lock file between our open and our flock: then the lock is on no file, and we try again.
constexpr int kLockAttempts = 16;

std::string LockPath(const std::string& path) { return path + ".lock"; }

absl::Status FileError(absl::string_view action, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", action, " ", path, ": ", strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(message, " (create the directory first)"));
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
      return absl::PermissionDeniedError(absl::StrCat(message, " (choose a directory this user may write to)"));
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status InUse(const std::string& path, int lock) {
  char text[32];
  const ssize_t bytes = pread(lock, text, sizeof(text), 0);
  const absl::string_view owner =
      absl::StripAsciiWhitespace(absl::string_view(text, bytes > 0 ? static_cast<size_t>(bytes) : 0));
  return absl::AlreadyExistsError(absl::StrCat("shm://", path, " is in use by a live server",
                                               owner.empty() ? "" : absl::StrCat(" (pid ", owner, ")"),
                                               "; stop it, or choose another address"));
}

absl::StatusOr<UniqueFd> TakeLock(const std::string& path) {
  const std::string lock_path = LockPath(path);
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.ok()) return FileError("open the lock file", lock_path);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return InUse(path, lock.get());
      return FileError("lock", lock_path);
    }
    struct stat held;
    struct stat named;
    if (fstat(lock.get(), &held) == 0 && stat(lock_path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
        held.st_ino == named.st_ino) {
      const std::string owner = absl::StrCat(getpid(), "\n");
      if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), owner.data(), owner.size(), 0) < 0) {
        return FileError("write to the lock file", lock_path);
      }
      return lock;
    }
  }
  return absl::UnavailableError(
      absl::StrCat(lock_path, " is being replaced all the time; is another server starting?"));
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::Take(const std::string& path) {
  absl::StatusOr<UniqueFd> lock = TakeLock(path);
  if (!lock.ok()) return lock.status();
  SocketAddress taken(path, *std::move(lock));
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      unlink(LockPath(path).c_str());
      taken.lock_.reset();
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists and is not a socket; remove it, or choose another address"));
    }
    // We hold the lock, so its owner is dead.
    if (unlink(path.c_str()) != 0) return FileError("remove the stale socket", path);
  }
  if (absl::Status status = taken.Listen(); !status.ok()) return status;
  return taken;
}

absl::Status SocketAddress::Listen() {
  socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.ok()) return FileError("make a socket for", path_);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path_.size() > kMaxSocketPathBytes) return absl::InvalidArgumentError("the path is too long for a socket");
  memcpy(address.sun_path, path_.data(), path_.size());
  if (bind(socket_.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)) != 0 ||
      listen(socket_.get(), kBacklog) != 0) {
    return FileError("listen at", path_);
  }
  return absl::OkStatus();
}

SocketAddress::~SocketAddress() {
  if (!lock_.ok()) return;  // moved from
  if (socket_.ok()) unlink(path_.c_str());
  unlink(LockPath(path_).c_str());
}

}  // namespace farlook::rdma::shm
