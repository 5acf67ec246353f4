// Memory shared by descriptor between processes that do not trust each other.
//
// Why seals: who maps a file that its owner then truncates dies of SIGBUS; and a descriptor, also a read-only one, can
// be reopened for writing through /proc/self/fd. So every descriptor that crosses the socket is a memfd whose size is
// sealed, and the receiver checks seals and size before it maps.
#ifndef FARLOOK_RDMA_HOST_SEALED_MEMORY_H_
#define FARLOOK_RDMA_HOST_SEALED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma {

// Who receives the descriptor...
enum class Sealing : uint8_t {
  kFixedSize,  // ... may write to it, and cannot change its size
  kReadOnly,   // ... cannot write to it either, nor punch holes; the creator's mapping made before stays writable
};

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
  // As reset(), in pieces: meanwhile other threads of the process can map memory, who would have to wait for the whole.
  void ResetInPieces();

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// A memfd of `bytes` (rounded up to its page size), all zeros. `flags` go to memfd_create beside MFD_CLOEXEC and
// MFD_ALLOW_SEALING. RESOURCE_EXHAUSTED, or UNIMPLEMENTED where the kernel lacks what the flags ask for.
absl::StatusOr<UniqueFd> CreateSealable(const char* name, size_t bytes, unsigned flags = 0);

// Seals it for ever. Mappings that exist stay as they are.
absl::Status Seal(int fd, Sealing sealing);

// Whether `fd`, of unknown origin, is sealed memory of at least `bytes`: mapping it cannot hurt. Memory of kFixedSize
// in huge pages is refused: a hole punched into it gives back its reservation, and the next access may be a SIGBUS.
absl::Status CheckSealed(int fd, Sealing at_least, uint64_t bytes);

// Gives the memory all its pages, so that a process that reads it allocates none. RESOURCE_EXHAUSTED.
absl::Status Populate(int fd, size_t bytes);

// Whether all of it was populated. Of memory sealed kReadOnly that stays so.
absl::Status CheckPopulated(int fd);

// Maps the first `bytes`, shared, at a multiple of 2 MiB when that long. RESOURCE_EXHAUSTED.
absl::StatusOr<Mapping> Map(int fd, size_t bytes, bool writable);

// Private zeroed memory, page aligned. RESOURCE_EXHAUSTED.
absl::StatusOr<Mapping> MapAnonymous(size_t bytes);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_SEALED_MEMORY_H_
