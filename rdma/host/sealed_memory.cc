#include "rdma/host/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>

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

absl::Status CheckKindOfPages(int fd, bool huge_is_safe) {
  struct statfs file_system;
  if (fstatfs(fd, &file_system) != 0) return ErrnoStatus("fstatfs");
  const auto type = static_cast<unsigned long>(file_system.f_type);  // NOLINT(runtime/int): as the kernel has it
  if (type == TMPFS_MAGIC || (huge_is_safe && type == HUGETLBFS_MAGIC)) return absl::OkStatus();
  return absl::InvalidArgumentError("the memory is not in the kind of pages that can be shared safely");
}

absl::Status CheckLength(int fd, uint64_t bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  if (info.st_size >= 0 && static_cast<uint64_t>(info.st_size) >= bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the memory has ", info.st_size, " bytes, not ", bytes));
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Returns an address for a mapping of `bytes` at a multiple of 2 MiB, so that the kernel can use huge page table
// entries. Null if the address space is short: then any address is acceptable.
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

// Mappings that MapOnce() made in this process, by file, length and whether they are writable. A mapping in use keeps
// its file, so no other file has its number. A child of fork() finds the lock free.
struct SharedMappings {
  SharedMappings() {
    pthread_atfork([] { Instance().mutex.lock(); }, [] { Instance().mutex.unlock(); },
                   [] { Instance().mutex.unlock(); });
  }
  static SharedMappings& Instance() {
    static auto* const all = new SharedMappings;
    return *all;
  }

  std::mutex mutex;
  std::map<std::tuple<dev_t, ino_t, size_t, bool>, std::weak_ptr<const Mapping>> by_file;
};

}  // namespace

void Mapping::reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

void Mapping::ResetInPieces() {
  // From the end, in units of a huge page.
  while (bytes_ > kHugeBytes) {
    const size_t left = (bytes_ - 1) / kHugeBytes * kHugeBytes;
    if (munmap(data_ + left, bytes_ - left) != 0) break;
    bytes_ = left;
  }
  reset();
}

absl::Status CheckFileSize(uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("memory to share is a file, here of ", bytes,
                                                   " bytes, but files may have at most ", limit.rlim_cur,
                                                   ": raise the limit (ulimit -f, LimitFSIZE= of systemd)"));
}

absl::Status CheckAddressSpace(uint64_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return absl::OkStatus();
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;  // mapped addresses
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (used <= limit.rlim_cur && bytes <= limit.rlim_cur - used) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("this process may map ", limit.rlim_cur, " bytes, has mapped ", used,
                                                   ", and is to map ", bytes,
                                                   " more: raise the limit (ulimit -v, LimitAS= of systemd)"));
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
  if (absl::Status status = CheckFileSize(rounded); !status.ok()) return status;
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
  if (absl::Status status = CheckKindOfPages(fd, at_least == Sealing::kReadOnly); !status.ok()) return status;
  return CheckLength(fd, bytes);
}

absl::Status CheckLasting(int fd, uint32_t owner, uint64_t bytes) {
  if (absl::Status status = CheckKindOfPages(fd, /*huge_is_safe=*/true); !status.ok()) return status;
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 || (info.st_uid != owner && info.st_uid != 0)) {
    return absl::InvalidArgumentError("the memory is neither sealed nor a file that only the server's user may open");
  }
  return CheckLength(fd, bytes);
}

absl::Status Populate(int fd, size_t bytes) {
  while (fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return ErrnoStatus(absl::StrCat("allocating ", bytes, " bytes of shared memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckPopulated(int fd) {
  constexpr int64_t kBlockBytes = 512;  // of st_blocks, whatever the page size
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
  // The kernel aligns huge pages by itself.
  const bool align = rounded >= kHugeBytes && static_cast<size_t>(info.st_blksize) < kHugeBytes;
  char* const where = align ? ReserveAligned(rounded) : nullptr;
  void* const data = mmap(where, rounded, protection, MAP_SHARED | (where != nullptr ? MAP_FIXED : 0), fd, 0);
  if (data == MAP_FAILED) {
    const absl::Status status = ErrnoStatus(absl::StrCat("mapping ", rounded, " bytes"));
    if (where != nullptr) munmap(where, rounded);
    return status;
  }
  madvise(data, rounded, MADV_DONTDUMP);
  return Mapping(static_cast<char*>(data), rounded);
}

absl::StatusOr<std::shared_ptr<const Mapping>> MapOnce(int fd, size_t bytes, bool writable) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("fstat");
  SharedMappings& all = SharedMappings::Instance();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_file, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const Mapping>& known = all.by_file[{info.st_dev, info.st_ino, bytes, writable}];
  if (std::shared_ptr<const Mapping> mapping = known.lock(); mapping != nullptr) return mapping;
  absl::StatusOr<Mapping> mapping = Map(fd, bytes, writable);
  if (!mapping.ok()) return mapping.status();
  auto shared = std::make_shared<const Mapping>(*std::move(mapping));
  known = shared;
  return shared;
}

absl::StatusOr<Mapping> MapAnonymous(size_t bytes) {
  const size_t rounded = RoundUp(bytes, 4096);
  void* const data = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(absl::StrCat("allocating ", rounded, " bytes"));
  madvise(data, rounded, MADV_DONTDUMP);
  return Mapping(static_cast<char*>(data), rounded);
}

}  // namespace farlook::rdma
