#include "rdma/shm/socket_address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"

namespace farlook::rdma::shm {
namespace {

constexpr int kBacklog = 1024;  // the kernel reduces it to net.core.somaxconn

// The owner may remove its lock file between our open and our flock: then the lock is on no file, and we try again.
constexpr int kLockAttempts = 16;

std::string LockPath(const std::string& path) { return path + ".lock"; }

absl::Status FileError(absl::string_view action, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", action, " ", path, ": ", strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(message, " (create the directory first)"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(message, " (a part of the path is a file; choose another address)"));
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

// Error for a file at `path` that is no socket.
absl::Status NoSocket(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is a directory; the address is that of a socket within it, such as shm://", path, "/kv"));
  }
  return absl::AlreadyExistsError(absl::StrCat(
      path, " is a file of something else, not the socket of a server, and was left as it is; choose another address"));
}

absl::Status InUse(const std::string& path, int lock) {
  char text[32];
  const ssize_t bytes = pread(lock, text, sizeof(text), 0);
  const absl::string_view owner =
      absl::StripAsciiWhitespace(absl::string_view(text, bytes > 0 ? static_cast<size_t>(bytes) : 0));
  if (owner == absl::StrCat(getpid())) {
    return absl::AlreadyExistsError(absl::StrCat("shm://", path, " is in use by this process: name it once"));
  }
  return absl::AlreadyExistsError(absl::StrCat("shm://", path, " is in use by a live server",
                                               owner.empty() ? "" : absl::StrCat(" (pid ", owner, ")"),
                                               "; stop it, or choose another address"));
}

// REQUIRES a path that fits.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* Generic(const sockaddr_un* address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(address));
}

UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Returns whether a process listens at that socket file, even if it is stopped or its backlog is full.
absl::StatusOr<bool> IsListenedAt(const std::string& path) {
  const UniqueFd socket = NewSocket();
  if (!socket.ok()) return FileError("make a socket for", path);
  const sockaddr_un address = AddressOf(path);
  return connect(socket.get(), Generic(&address), sizeof(address)) == 0 || errno == EAGAIN;
}

// Returns the id of the file with that name, or FileId() if there is none. Returns nothing if the kernel does not
// answer after this many attempts.
constexpr int kAskedAtMost = 3;

std::optional<FileId> FileAt(const std::string& path) {
  for (int i = 0; i < kAskedAtMost; ++i) {
    struct stat info;
    if (lstat(path.c_str(), &info) == 0) return FileId{info.st_dev, info.st_ino};
    if (errno == ENOENT || errno == ENOTDIR) return FileId{};
  }
  return std::nullopt;
}

absl::StatusOr<UniqueFd> TakeLock(const std::string& path, FileId* file) {
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
      *file = {held.st_dev, held.st_ino};
      return lock;
    }
  }
  return absl::UnavailableError(absl::StrCat(lock_path, " is replaced repeatedly; is another server starting?"));
}

// Returns the abstract name, with its first byte 0; empty if there is none.
std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  struct stat directory;
  if (stat(path.substr(0, slash + 1).c_str(), &directory) != 0) return "";
  const std::string name =
      absl::StrCat("farlook/", absl::Hex(directory.st_dev), ":", absl::Hex(directory.st_ino), path.substr(slash));
  return name.size() < sizeof(sockaddr_un::sun_path) ? std::string(1, '\0') + name : "";
}

// Returns the process that holds an abstract name, if its user is trusted: this user or root.
std::optional<pid_t> BelievedHolder(const sockaddr_un& address, socklen_t bytes) {
  const UniqueFd socket = NewSocket();
  if (!socket.ok() || connect(socket.get(), Generic(&address), bytes) != 0) return std::nullopt;
  ucred holder = {};
  socklen_t holder_bytes = sizeof(holder);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &holder, &holder_bytes) != 0) return std::nullopt;
  if (holder.uid != geteuid() && holder.uid != 0) return std::nullopt;
  return holder.pid;
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::Take(const std::string& path, const Permissions& permissions) {
  FileId lock_file;
  absl::StatusOr<UniqueFd> lock = TakeLock(path, &lock_file);
  if (!lock.ok()) return lock.status();
  SocketAddress taken(path, *std::move(lock), lock_file);
  if (absl::Status status = taken.HoldName(); !status.ok()) return status;
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      unlink(LockPath(path).c_str());
      taken.lock_.reset();
      return NoSocket(path, info.st_mode);
    }
    // This process holds the lock, so the owner is dead, unless the lock file that it holds was removed.
    absl::StatusOr<bool> listened_at = path.size() > kMaxSocketPathBytes ? false : IsListenedAt(path);
    if (!listened_at.ok()) return listened_at.status();
    if (*listened_at) {
      const absl::Status in_use =
          absl::AlreadyExistsError(absl::StrCat("shm://", path, " is in use by a live server, whose lock file ",
                                                LockPath(path), " was removed; stop it, or choose another address"));
      unlink(LockPath(path).c_str());
      taken.lock_.reset();
      return in_use;
    }
    if (unlink(path.c_str()) != 0) return FileError("remove the stale socket", path);
  }
  if (absl::Status status = taken.Listen(permissions); !status.ok()) return status;
  return taken;
}

// ALREADY_EXISTS: a live server holds the name, though its files are gone or another's.
absl::Status SocketAddress::HoldName() {
  const std::string name = NameOf(path_);
  if (name.empty()) return absl::OkStatus();
  UniqueFd socket = NewSocket();
  if (!socket.ok()) return absl::OkStatus();
  const sockaddr_un address = AddressOf(name);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (bind(socket.get(), Generic(&address), bytes) == 0) {
    if (listen(socket.get(), kBacklog) == 0) name_ = std::move(socket);
    return absl::OkStatus();
  }
  if (errno != EADDRINUSE) return absl::OkStatus();
  const std::optional<pid_t> holder = BelievedHolder(address, bytes);
  if (!holder.has_value()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("shm://", path_, " is in use by a live server (pid ", *holder,
                                               "), whose lock file ", LockPath(path_),
                                               " was removed; stop it, or choose another address"));
}

// Called before listen(): no client connects before the permissions are right.
absl::Status SocketAddress::Permit(const Permissions& permissions) const {
  if (permissions.gid >= 0 && chown(path_.c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(permissions.gid)) != 0) {
    const absl::string_view cure = errno == EPERM ? "; be a member of that group, or root" : "";
    return absl::PermissionDeniedError(absl::StrCat("cannot give the socket file ", path_, " to group ",
                                                    permissions.gid, " (--socket_group): ", strerror(errno), cure));
  }
  if (permissions.mode >= 0 && chmod(path_.c_str(), static_cast<mode_t>(permissions.mode)) != 0) {
    return FileError("set the mode (--socket_mode) of", path_);
  }
  return absl::OkStatus();
}

absl::Status SocketAddress::Listen(const Permissions& permissions) {
  socket_ = NewSocket();
  if (!socket_.ok()) return FileError("make a socket for", path_);
  if (path_.size() > kMaxSocketPathBytes) return absl::InvalidArgumentError("the path is too long for a socket");
  const sockaddr_un address = AddressOf(path_);
  if (bind(socket_.get(), Generic(&address), sizeof(address)) != 0) {
    return FileError("listen at", path_);
  }
  const std::optional<FileId> file = FileAt(path_);
  if (!file.has_value()) {
    absl::Status failed = FileError("look at", path_);
    unlink(path_.c_str());  // made by this process, a moment ago
    return failed;
  }
  socket_file_ = *file;
  if (absl::Status status = Permit(permissions); !status.ok()) return status;
  if (listen(socket_.get(), kBacklog) != 0) return FileError("listen at", path_);
  // Without it a removal of the file is not reported; everything else works the same.
  news_ = UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (news_.ok() && inotify_add_watch(news_.get(), path_.c_str(), IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
    news_.reset();
  }
  return absl::OkStatus();
}

absl::Status SocketAddress::status() const {
  if (FileAt(path_).value_or(socket_file_) == socket_file_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the socket file ", path_,
                   " was removed or replaced; connected clients are not affected, and no other client can "
                   "connect until this server is started again"));
}

void SocketAddress::Drain() const {
  alignas(inotify_event) char events[4096];
  while (news_.ok() && read(news_.get(), events, sizeof(events)) > 0) {
  }
}

SocketAddress::~SocketAddress() {
  if (!lock_.ok()) return;  // moved from
  // FileId() stands for no file: a file that was not made is not removed.
  if (socket_file_ != FileId() && FileAt(path_) == socket_file_) unlink(path_.c_str());
  if (FileAt(LockPath(path_)) == lock_file_) unlink(LockPath(path_).c_str());
}

}  // namespace farlook::rdma::shm
