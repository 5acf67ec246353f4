// The memory of an index mirror: of this client alone, or shared by all clients of one user on one host.
//
// What is shared is a memory file that no process can shrink or grow (sealed), so that no peer makes another fault. Its
// name leads from a link in a directory of the user's, $XDG_RUNTIME_DIR/farlook or /dev/shm/farlook-UID, to the
// descriptor of the process that made it, /proc/PID/fd/N. Who finds the link dead makes a file of its own and takes the
// link's place; those who have the old one keep it, until they end. Nobody waits for anybody, and nobody relies on it.
// Who makes one takes away dead links of other tables, which processes left that were killed.
//
// Thread safety: none; the memory itself is loaded and stored in words (kv/words.h) by whoever has it.
#ifndef FARLOOK_CLIENT_MIRROR_MEMORY_H_
#define FARLOOK_CLIENT_MIRROR_MEMORY_H_

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

  // Memory that begins as zeros, and is taken as it is touched. None: there is none to be had.
  static MirrorMemory Private(uint64_t bytes);
  // The memory of this length that this user's processes share for the table of `incarnation`, whatever they stored
  // there. None: it cannot be shared here. `directory` is where links lie.
  static MirrorMemory Shared(absl::string_view directory, uint64_t incarnation, uint64_t bytes);
  // Where this user's links lie: only its own to change. Empty: there is no such place.
  static std::string DirectoryOfUser();

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  bool Map(int fd, uint64_t bytes);
  static MirrorMemory Make(absl::string_view directory, absl::string_view name, uint64_t bytes);

  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  int fd_ = -1;       // kept by who made the file, so that others find it
  std::string link_;  // that leads to it
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_MIRROR_MEMORY_H_
