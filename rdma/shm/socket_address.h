// The socket file of a listener, and the lock beside it that says whether its owner lives.
//
// A server that was killed leaves its socket file behind; connecting to it fails, binding over it too. Whether the file
// is stale cannot be told from the file, so the owner holds a lock (flock) on `path`.lock, which the kernel lets go
// when the owner dies. A stopped server still holds it.
//
// Somebody may remove either file while the owner lives. So who finds a socket file beside a free lock asks whether
// anybody listens there before it replaces it, and each owner removes only files that are its own. Where the kernel
// does not say which file it is, also when asked again, the file stays: a stale one does no harm.
//
// Somebody may remove both. So an owner also holds a name that no file bears: an abstract socket, named by the
// directory's id and the path's last part, which is gone when its process is. Everybody may take such a name, so only
// one that this user or root holds is believed; and it is known within a network namespace alone. Where it cannot be
// had (names of more than 60 bytes, a sandbox that forbids it) all else is as with it.
#ifndef FARLOOK_RDMA_SHM_SOCKET_ADDRESS_H_
#define FARLOOK_RDMA_SHM_SOCKET_ADDRESS_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::shm {

// Which file it is, whatever its name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

class SocketAddress {
 public:
  // Whom the socket file lets connect: those who may write to it. -1: as the umask, or the directory, has it.
  struct Permissions {
    int mode = -1;
    int64_t gid = -1;
  };

  // Takes the path and listens there. Errors name the cure:
  //   ALREADY_EXISTS     a live server listens there, or the path is something else than a socket
  //   NOT_FOUND          the directory does not exist
  //   PERMISSION_DENIED  this user may not create files there, or not give them to that group
  static absl::StatusOr<SocketAddress> Take(const std::string& path, const Permissions& permissions);
  static absl::StatusOr<SocketAddress> Take(const std::string& path) { return Take(path, {}); }

  SocketAddress(SocketAddress&&) = default;
  SocketAddress& operator=(SocketAddress&&) = delete;
  // Removes the socket file and the lock file, if they are still those that were made.
  ~SocketAddress();

  int socket() const { return socket_.get(); }  // listening, non-blocking
  const std::string& path() const { return path_; }

  // UNAVAILABLE when the path does not lead to the socket any more.
  absl::Status status() const;
  // Readable when that may have changed, until Drain(); -1 if the kernel has no such descriptor to give.
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
