// How a backup knows that the process of a former primary has ended: the kernel says so.
//
// Each replica of a group whose directory is a folder of this host holds the lock of a file of its own there,
// NAME.locks/ INCARNATION, from its start until nothing of its memory can be READ any more. When its process ends,
// however it ends, the kernel lets the lock go; one that is only stopped still holds it. By then whoever reads over
// shm:// is told by the life sign (rdma/shm/life_sign.h) that nothing more is to be believed, and the queue pairs of
// others are destroyed. Whoever may open such a file could hold the lock of one that has ended: it is the user's and
// the group's alone.
#ifndef FARLOOK_SERVER_PROCESS_LOCK_H_
#define FARLOOK_SERVER_PROCESS_LOCK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::server {

class ProcessLock {
 public:
  // Takes the lock of an incarnation that no process had before. Errors name the file.
  static absl::StatusOr<std::unique_ptr<ProcessLock>> Take(absl::string_view folder, uint64_t incarnation);
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  // Whether that one's process has ended, for certain. Errors name the file: nobody knows.
  static absl::StatusOr<bool> HasEnded(absl::string_view folder, uint64_t incarnation);

 private:
  explicit ProcessLock(int file) : file_(file) {}
  const int file_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_PROCESS_LOCK_H_
