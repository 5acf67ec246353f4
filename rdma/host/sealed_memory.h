// Memory shared by descriptor between processes that do not trust each other.
//
// Seals are necessary. A process that maps a file which its owner then truncates dies of SIGBUS. Any descriptor, even a
// read-only one, can be reopened for writing through /proc/self/fd. So every descriptor that crosses the socket is a
// memfd whose size is sealed, and the receiver checks seals and size before it maps. The one exception is a server's
// memory in a file (rdma/memory_file.h), which clients may only read: see CheckLasting().
#ifndef FARLOOK_RDMA_HOST_SEALED_MEMORY_H_
#define FARLOOK_RDMA_HOST_SEALED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma {

// Rights of the process that receives the descriptor.
enum class Sealing : uint8_t {
  kFixedSize,  // may write, but cannot change the size
  kReadOnly,   // can neither write nor punch holes; a mapping that the creator made before stays writable
};

// Core dumps exclude every mapping made here: it may hold the table, or messages of other clients.

// A mapping with one owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(char* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool ok() const { return data_ != nullptr; }
  void reset();
  // Like reset(), in pieces, between which other threads of the process can map memory. They would otherwise wait for
  // the whole.
  void ResetInPieces();

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// RESOURCE_EXHAUSTED: this process may not have files of `bytes`, as shared memory is one. This check matters: beyond
// the limit the kernel sends SIGXFSZ, which ends a process.
absl::Status CheckFileSize(uint64_t bytes);

// RESOURCE_EXHAUSTED: this process may not map `bytes` more (RLIMIT_AS).
absl::Status CheckAddressSpace(uint64_t bytes);

// Returns a memfd of `bytes` (rounded up to its page size), all zeros. `flags` are passed to memfd_create besides
// MFD_CLOEXEC and MFD_ALLOW_SEALING. RESOURCE_EXHAUSTED, or UNIMPLEMENTED if the kernel does not support the flags.
absl::StatusOr<UniqueFd> CreateSealable(const char* name, size_t bytes, unsigned flags = 0);

// Seals it permanently. Existing mappings do not change.
absl::Status Seal(int fd, Sealing sealing);

// Checks that `fd`, of unknown origin, is sealed memory of at least `bytes`: mapping it is then harmless. Memory of
// kFixedSize in huge pages is refused: a hole punched into it frees its reservation, and the next access may be a
// SIGBUS.
absl::Status CheckSealed(int fd, Sealing at_least, uint64_t bytes);

// Checks that `fd` is memory that outlives its process: a file on tmpfs or hugetlbfs, of at least `bytes`, which only
// its owner may open, and that is the user `owner` or root. Such a file cannot be sealed. Its owner may still write to
// it, and cut it short; a process that then reads it dies of SIGBUS. INVALID_ARGUMENT.
absl::Status CheckLasting(int fd, uint32_t owner, uint64_t bytes);

// Allocates all pages, so that a process that reads the memory allocates none. RESOURCE_EXHAUSTED.
absl::Status Populate(int fd, size_t bytes);

// Checks that all pages are allocated. Memory sealed kReadOnly keeps them.
absl::Status CheckPopulated(int fd);

// Maps the first `bytes`, shared, at a multiple of 2 MiB if that long. RESOURCE_EXHAUSTED.
absl::StatusOr<Mapping> Map(int fd, size_t bytes, bool writable);

// Like Map(), but while a mapping of a memory file is in use, further ones in this process share it.
// RESOURCE_EXHAUSTED.
absl::StatusOr<std::shared_ptr<const Mapping>> MapOnce(int fd, size_t bytes, bool writable);

// Private zeroed memory, page aligned. RESOURCE_EXHAUSTED.
absl::StatusOr<Mapping> MapAnonymous(size_t bytes);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_SEALED_MEMORY_H_
