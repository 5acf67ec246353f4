// Tells a backup, by file locks of the kernel, that the former primary's process has ended.
//
// It is used if the group's directory is a folder of this host. Each replica locks a file of its own there,
// NAME.locks/INCARNATION, from its start until none of its memory can be READ any more. However its process ends, the
// kernel then releases the lock; a stopped process still holds it. By then the life sign (rdma/shm/life_sign.h) has
// invalidated the memory for readers over shm://, and the queue pairs of other readers are destroyed. A process that
// can open such a file could hold the lock of an ended replica. So the file can be opened only by the server's user and
// group.
#ifndef FARLOOK_SERVER_GROUP_PROCESS_LOCK_H_
#define FARLOOK_SERVER_GROUP_PROCESS_LOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::server {

class ProcessLock {
 public:
  // Locks the file of an incarnation that no process had before. Errors contain the file's path.
  static absl::StatusOr<std::unique_ptr<ProcessLock>> Take(absl::string_view folder, uint64_t incarnation);
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  // Returns whether the incarnation's process has certainly ended. After an error, which contains the file's path, this
  // is unknown.
  static absl::StatusOr<bool> HasEnded(absl::string_view folder, uint64_t incarnation);

 private:
  explicit ProcessLock(int file) : file_(file) {}
  const int file_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_PROCESS_LOCK_H_
