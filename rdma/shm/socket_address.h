// The socket file of a listener, and the lock file beside it that shows whether its owner lives.
//
// A killed server leaves its socket file behind: connecting to it fails, and so does binding over it. The file does not
// show whether it is stale, so the owner holds a lock (flock) on `path`.lock, which the kernel releases when the owner
// dies. A stopped server still holds it.
//
// Either file may be removed while the owner lives. So a server that finds a socket file beside a free lock checks that
// nothing listens there before it replaces the file, and each owner removes only its own files. If the kernel does not
// identify a file, even on a second attempt, the file stays: a stale one is harmless.
//
// Both files may be removed. So an owner also holds a name without a file: an abstract socket, named by the directory's
// id and the path's last part, which disappears with its process. Any user may take such a name, so it only counts if
// its holder is this user or root. It is known only within a network namespace. If it cannot be had (names of more than
// 60 bytes, a sandbox that forbids it), everything else works the same.
#ifndef FARLOOK_RDMA_SHM_SOCKET_ADDRESS_H_
#define FARLOOK_RDMA_SHM_SOCKET_ADDRESS_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::shm {

// Identity of a file, independent of its name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

class SocketAddress {
 public:
  // Decides which users may connect: those with write permission for the socket file. -1: by the umask, or the
  // directory.
  struct Permissions {
    int mode = -1;
    int64_t gid = -1;
  };

  // Takes the path and listens there. Errors name the remedy:
  //   ALREADY_EXISTS     a live server listens there, or the path is not a socket
  //   NOT_FOUND          the directory does not exist
  //   PERMISSION_DENIED  this user may not create files there, or not give them to that group
  static absl::StatusOr<SocketAddress> Take(const std::string& path, const Permissions& permissions);
  static absl::StatusOr<SocketAddress> Take(const std::string& path) { return Take(path, {}); }

  SocketAddress(SocketAddress&&) = default;
  SocketAddress& operator=(SocketAddress&&) = delete;
  // Removes the socket file and the lock file, if they are still its own.
  ~SocketAddress();

  int socket() const { return socket_.get(); }  // listening, non-blocking
  const std::string& path() const { return path_; }

  // UNAVAILABLE if the path no longer leads to the socket.
  absl::Status status() const;
  // Readable if that may have changed, until Drain(); -1 if the kernel could not provide a descriptor.
  int news() const { return news_.get(); }
  void Drain() const;

 private:
  SocketAddress(std::string path, UniqueFd lock, const FileId& lock_file)
      : path_(std::move(path)), lock_(std::move(lock)), lock_file_(lock_file) {}
  absl::Status HoldName();
  absl::Status Listen(const Permissions& permissions);
  absl::Status Permit(const Permissions& permissions) const;

  std::string path_;
  UniqueFd lock_;
  FileId lock_file_;
  UniqueFd name_;  // the abstract socket
  UniqueFd socket_;
  UniqueFd news_;
  FileId socket_file_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_SOCKET_ADDRESS_H_
