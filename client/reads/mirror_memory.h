// The memory of an index mirror: private to this client, or shared by all clients of one user on one host.
//
// Shared memory is a sealed memory file: no process can shrink or grow it, so no peer can make another fault. It is
// found by a link in a directory of the user, $XDG_RUNTIME_DIR/farlook or /dev/shm/farlook-UID. The link leads to the
// descriptor of the process that made the file, /proc/PID/fd/N. A process that finds the link dead makes a new file and
// replaces the link; processes with the old file keep it until they end. No process waits for another or relies on it.
// A process that makes a file also removes dead links of other tables, which killed processes left.
//
// Thread safety: none; all users load and store the memory in words (kv/layout/words.h).
#ifndef FARLOOK_CLIENT_READS_MIRROR_MEMORY_H_
#define FARLOOK_CLIENT_READS_MIRROR_MEMORY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace farlook::client {

class MirrorMemory {
 public:
  MirrorMemory() = default;  // no memory
  ~MirrorMemory();
  MirrorMemory(MirrorMemory&& other) noexcept { *this = std::move(other); }
  MirrorMemory& operator=(MirrorMemory&& other) noexcept;

  // Returns memory that is initially zero and allocated as it is touched; no memory on failure.
  static MirrorMemory Private(uint64_t bytes);
  // Returns the memory of this length that this user's processes share for the table of `incarnation`, with any
  // contents; no memory if it cannot be shared here. `directory` contains the links.
  static MirrorMemory Shared(absl::string_view directory, uint64_t incarnation, uint64_t bytes);
  // Returns the directory of this user's links, which only the user can change; empty if there is none.
  static std::string DirectoryOfUser();

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool Map(int fd, uint64_t bytes);
  static MirrorMemory Make(absl::string_view directory, absl::string_view name, uint64_t bytes);

  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  int fd_ = -1;       // kept by the process that made the file, so that others find it
  std::string link_;  // the link to it
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_READS_MIRROR_MEMORY_H_
