// Memory for a server's data that outlives its process: a file on tmpfs or hugetlbfs, mapped as a whole.
//
//     Open     there is a file of that name -> its memory, with what a former process left there
//              there is none                -> zeros, in a file that has no name yet
//     Publish  gives a new file its name: from then on a later process finds it, complete
//
// So a process that ends while it fills a new file leaves nothing behind.
//
// The file belongs to this process' user, who alone may open it. Unlike a memfd it cannot be sealed: a process of that
// user, or root, may write to it, or cut it short, and this process then dies of SIGBUS. Clients get a descriptor that
// can only be read from; it cannot be opened again for writing, except by that user and root.
//
// MemoryFile keeps no second process away. PathLock does.
#ifndef FARLOOK_RDMA_MEMORY_FILE_H_
#define FARLOOK_RDMA_MEMORY_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shared_memory.h"

namespace farlook::rdma {

// INVALID_ARGUMENT, with the remedy, unless `path` is absolute and its folder exists on tmpfs or hugetlbfs.
absl::Status CheckMemoryPath(const std::string& path);

// RESOURCE_EXHAUSTED, with the remedy, unless a new file of `bytes` fits. REQUIRES CheckMemoryPath(path).ok().
absl::Status CheckMemoryRoom(const std::string& path, uint64_t bytes, int numa_node);

// Held by at most one process for a path: a lock of the kernel on PATH.lock, which stays as an empty file. It ends with
// the process, however that ends, after the process' mappings and connections.
class PathLock {
 public:
  // FAILED_PRECONDITION: a process that lives has it, or PATH.lock belongs to another user. PERMISSION_DENIED: the
  // folder allows no new file.
  static absl::StatusOr<PathLock> Take(const std::string& path);

 private:
  explicit PathLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

// Move-only.
class MemoryFile {
 public:
  // REQUIRES CheckMemoryPath(path).ok(). `options`: as for SharedMemory, except that the file system has the size of
  // pages: `huge_pages` must fit. Blocks while the kernel clears pages. Errors leave the file as it is:
  //   FAILED_PRECONDITION  there is something of that name that cannot be used: a link, another user's file, one of
  //                        another size or in other pages, one that others may open, or that a process has open to
  //                        write
  //   INVALID_ARGUMENT     the file system has no such pages
  //   RESOURCE_EXHAUSTED   not enough memory, or room on the file system
  //   PERMISSION_DENIED    the folder allows no new file
  static absl::StatusOr<MemoryFile> Open(const std::string& path, const SharedMemoryOptions& options);

  // Returns whether there is a file of that name, of any kind.
  static bool Exists(const std::string& path);
  // Removes the file, if it is there. FAILED_PRECONDITION: it is no file of this process' user, or a process has it
  // open to write.
  static absl::Status Remove(const std::string& path);

  MemoryFile(MemoryFile&&) = default;
  MemoryFile& operator=(MemoryFile&&) = default;

  bool is_new() const { return new_file_.ok(); }
  SharedMemory& memory() { return memory_; }

  // FAILED_PRECONDITION: there is a file of that name now.
  absl::Status Publish();

 private:
  MemoryFile(std::string path, UniqueFd new_file, SharedMemory memory)
      : path_(std::move(path)), new_file_(std::move(new_file)), memory_(std::move(memory)) {}

  std::string path_;
  UniqueFd new_file_;  // without a name
  SharedMemory memory_;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_MEMORY_FILE_H_
