#include "rdma/host/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farlook::rdma {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;

constexpr int kFixedSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kReadOnlySeals = kFixedSizeSeals | F_SEAL_FUTURE_WRITE;

int SealsOf(Sealing sealing) { return sealing == Sealing::kReadOnly ? kReadOnlySeals : kFixedSizeSeals; }

absl::Status ErrnoStatus(absl::string_view what) {
  const int error = errno;
  const std::string message = absl::StrCat(what, ": ", strerror(error));
  switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case EINVAL:
    case ENODEV:
    case ENOENT:
    case ENOSYS:
      return absl::UnimplementedError(message);
    default:
      return absl::InternalError(message);
  }
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Where a mapping of `bytes` can begin at a multiple of 2 MiB, so that the kernel can use huge page table entries.
// Null when the address space is short: then anywhere will do.
char* ReserveAligned(size_t bytes) {
  void* const reserved =
      mmap(nullptr, bytes + kHugeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(reserved);
  const size_t skip = RoundUp(reinterpret_cast<uintptr_t>(begin), kHugeBytes) - reinterpret_cast<uintptr_t>(begin);
  if (skip > 0) munmap(begin, skip);
  munmap(begin + skip + bytes, kHugeBytes - skip);
  return begin + skip;
}

}  // namespace

void Mapping::reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

void Mapping::ResetInPieces() {
  // From the end, in multiples of the pages that it can be made of.
  while (bytes_ > kHugeBytes) {
    const size_t left = (bytes_ - 1) / kHugeBytes * kHugeBytes;
    if (munmap(data_ + left, bytes_ - left) != 0) break;
    bytes_ = left;
  }
  reset();
}

absl::StatusOr<UniqueFd> CreateSealable(const char* name, size_t bytes, unsigned flags) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd.ok() && (errno == EMFILE || errno == ENFILE)) {
    return absl::ResourceExhaustedError("cannot make memory to share: no file descriptors are left (see ulimit -n)");
  }
  if (!fd.ok()) return ErrnoStatus("memfd_create");
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus("fstat of a memfd");
  // st_blksize is the page size, also of huge pages.
  const size_t rounded = RoundUp(bytes, static_cast<size_t>(info.st_blksize));
  if (ftruncate(fd.get(), static_cast<off_t>(rounded)) != 0) return ErrnoStatus("ftruncate of a memfd");
  return fd;
}

absl::Status Seal(int fd, Sealing sealing) {
  if (fcntl(fd, F_ADD_SEALS, SealsOf(sealing)) != 0) return ErrnoStatus("sealing a memfd");
  return absl::OkStatus();
}

absl::Status CheckSealed(int fd, Sealing at_least, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return absl::InvalidArgumentError("the descriptor is not of a memfd");
  const int wanted = SealsOf(at_least);
  if ((seals & wanted) != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("the memory has seals ", seals, ", needs ", wanted));
  }
  struct statfs file_system;
  if (fstatfs(fd, &file_system) != 0) return ErrnoStatus("fstatfs");
  const auto type = static_cast<unsigned long>(file_system.f_type);  // NOLINT(runtime/int): as the kernel has it
  const bool huge_is_safe = at_least == Sealing::kReadOnly;
  if (type != TMPFS_MAGIC && !(huge_is_safe && type == HUGETLBFS_MAGIC)) {
    return absl::InvalidArgumentError("the memory is not in the kind of pages that can be shared safely");
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the memory has ", info.st_size, " bytes, not ", bytes));
  }
  return absl::OkStatus();
}

absl::Status Populate(int fd, size_t bytes) {
  while (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return ErrnoStatus(absl::StrCat("allocating ", bytes, " bytes of shared memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckPopulated(int fd) {
  constexpr int64_t kBlockBytes = 512;  // of st_blocks, whatever the pages
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  if (info.st_blocks < info.st_size / kBlockBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory has holes: ", info.st_blocks * kBlockBytes, " bytes of ", info.st_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<Mapping> Map(int fd, size_t bytes, bool writable) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  const size_t rounded = RoundUp(bytes, static_cast<size_t>(info.st_blksize));
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  // The kernel places huge pages right by itself.
  const bool align = rounded >= kHugeBytes && static_cast<size_t>(info.st_blksize) < kHugeBytes;
  char* const where = align ? ReserveAligned(rounded) : nullptr;
  void* const data = mmap(where, rounded, protection, MAP_SHARED | (where != nullptr ? MAP_FIXED : 0), fd, 0);
  if (data == MAP_FAILED) {
    const absl::Status status = ErrnoStatus(absl::StrCat("mapping ", rounded, " bytes"));
    if (where != nullptr) munmap(where, rounded);
    return status;
  }
  return Mapping(static_cast<char*>(data), rounded);
}

absl::StatusOr<Mapping> MapAnonymous(size_t bytes) {
  const size_t rounded = RoundUp(bytes, 4096);
  void* const data = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(absl::StrCat("allocating ", rounded, " bytes"));
  return Mapping(static_cast<char*>(data), rounded);
}

}  // namespace farlook::rdma
