#include "rdma/memory_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rdma/host_memory.h"
#include "rdma/mapped_pages.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k2MiBBytes = uint64_t{2} << 20;
constexpr uint64_t k1GiBBytes = uint64_t{1} << 30;

// The number of looks for a process that has the file open, and the pause after each, in which it may end.
constexpr int kWriterLooks = 25;
constexpr absl::Duration kWriterPause = absl::Milliseconds(20);

constexpr absl::string_view kInUse = "is open in a process that lives, which may write to it";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status CannotMake(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot make ", path, ": ", strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(absl::StrCat(message, " (this user needs write permission on the folder)"));
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
      return absl::ResourceExhaustedError(message);
    case EOPNOTSUPP:
    case EISDIR:
      return absl::UnimplementedError(absl::StrCat(message, " (the file system has no files without a name)"));
    default:
      return absl::InternalError(message);
  }
}

// The file system that a file or folder is on.
absl::StatusOr<struct statfs> FileSystemOf(const std::string& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) == 0) return info;
  if (errno == EACCES) return absl::PermissionDeniedError(absl::StrCat("this user may not enter the folder ", folder));
  return absl::InvalidArgumentError(absl::StrCat("the folder ", folder, " cannot be used: ", strerror(errno)));
}

bool IsHugetlbfs(const struct statfs& info) { return static_cast<uint64_t>(info.f_type) == HUGETLBFS_MAGIC; }

// The kind of pages of the file system; for tmpfs it is as wanted.
absl::StatusOr<HugePages> KindOn(const struct statfs& info, HugePages wanted) {
  if (!IsHugetlbfs(info)) {
    if (wanted != HugePages::k1GiB && wanted != HugePages::k2MiB) return wanted;
    return absl::InvalidArgumentError(absl::StrCat("--huge_pages=", HugePagesName(wanted),
                                                   ": a file on tmpfs has none; put it on a mounted hugetlbfs"));
  }
  const auto bytes = static_cast<uint64_t>(info.f_bsize);
  const HugePages kind = bytes == k1GiBBytes ? HugePages::k1GiB : HugePages::k2MiB;
  if ((bytes == k1GiBBytes || bytes == k2MiBBytes) && (wanted == kind || wanted == HugePages::kAuto)) return kind;
  return absl::InvalidArgumentError(absl::StrCat("--huge_pages=", HugePagesName(wanted), ": the file's hugetlbfs has ",
                                                 "pages of ", bytes,
                                                 " bytes; use --huge_pages=auto, or another mount"));
}

// RESOURCE_EXHAUSTED unless `bytes` more fit. Without this check the kernel would fill the file system first.
absl::Status CheckRoomOn(const std::string& folder, const struct statfs& info, uint64_t bytes, int numa_node) {
  const bool limited = info.f_blocks > 0;
  const uint64_t room = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  if (limited && room < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes are needed, and the file system of ", folder, " has ", room,
        " free; ask for less, free some, or make it larger (for tmpfs: mount -o remount,size=SIZE MOUNT_POINT)"));
  }
  return IsHugetlbfs(info) ? CheckHugePageLimit(bytes, static_cast<uint64_t>(info.f_bsize))
                           : CheckAvailable(bytes, numa_node);
}

// Returns whether a process, this one included, has the file open for writing, or mapped so. The kernel grants a lease
// only if none has. Where it knows no leases, the answer is no. A process that is looked at (ps, top) may keep its
// mappings for a moment after its end.
bool HasWriter(int read_only) {
  // If a process opens the file just then, SIGURG is sent, which is ignored, and not SIGIO, which ends a process.
  fcntl(read_only, F_SETSIG, SIGURG);
  for (int attempt = 0; fcntl(read_only, F_SETLEASE, F_RDLCK) != 0; ++attempt) {
    if (errno != EAGAIN) return false;
    if (attempt == kWriterLooks) return true;
    absl::SleepFor(kWriterPause);
  }
  fcntl(read_only, F_SETLEASE, F_UNLCK);
  return false;
}

absl::Status Unfit(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(path, " ", why));
}

// Checks an existing file, which was opened for reading.
absl::Status CheckFile(const std::string& path, int file, uint64_t bytes) {
  struct stat info;
  if (fstat(file, &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("fstat of ", path));
  if (!S_ISREG(info.st_mode)) return Unfit(path, "is no file");
  if (info.st_uid != geteuid()) {
    return Unfit(path, absl::StrCat("belongs to the user ", info.st_uid, ", and this process is of user ", geteuid()));
  }
  if ((info.st_mode & 077) != 0) {
    return Unfit(path, absl::StrFormat("may be opened by others (its mode is %03o): chmod 600, if they did no harm",
                                       info.st_mode & 0777));
  }
  if (static_cast<uint64_t>(info.st_size) != bytes) {
    return Unfit(path, absl::StrCat("has ", info.st_size, " bytes, and this server's memory has ", bytes,
                                    ": give the server the same size"));
  }
  if (HasWriter(file)) return Unfit(path, kInUse);
  return absl::OkStatus();
}

// Opens an existing file, for reading and for writing. Returns none if there is none.
absl::StatusOr<std::optional<UniqueFd>> OpenExisting(const std::string& path, uint64_t bytes, UniqueFd* read_only) {
  *read_only = UniqueFd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!read_only->ok()) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) return Unfit(path, "is a symbolic link: name the file itself");
    return Unfit(path, absl::StrCat("cannot be opened: ", strerror(errno)));
  }
  if (absl::Status status = CheckFile(path, read_only->get(), bytes); !status.ok()) return status;
  UniqueFd file(open(absl::StrCat("/proc/self/fd/", read_only->get()).c_str(), O_RDWR | O_CLOEXEC));
  if (!file.ok()) return Unfit(path, absl::StrCat("cannot be opened for writing: ", strerror(errno)));
  return file;
}

absl::StatusOr<UniqueFd> MakeUnnamed(const std::string& path, uint64_t bytes, UniqueFd* read_only) {
  UniqueFd file(open(FolderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.ok()) return CannotMake(path, errno);
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return CannotMake(path, errno);
  *read_only = UniqueFd(open(absl::StrCat("/proc/self/fd/", file.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only->ok()) return CannotMake(path, errno);
  return file;
}

}  // namespace

absl::Status CheckMemoryPath(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.back() == '/') {
    return absl::InvalidArgumentError("give the absolute path of a file, such as /dev/shm/farlook/table");
  }
  const absl::StatusOr<struct statfs> info = FileSystemOf(FolderOf(path));
  if (!info.ok()) return info.status();
  if (IsHugetlbfs(*info) || static_cast<uint64_t>(info->f_type) == TMPFS_MAGIC) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the folder ", FolderOf(path),
      " lies on a disk or another file system, and the file must be memory: use a folder on tmpfs, such as "
      "/dev/shm, or on hugetlbfs"));
}

absl::Status CheckMemoryRoom(const std::string& path, uint64_t bytes, int numa_node) {
  const absl::StatusOr<struct statfs> info = FileSystemOf(FolderOf(path));
  return info.ok() ? CheckRoomOn(FolderOf(path), *info, bytes, numa_node) : info.status();
}

absl::StatusOr<PathLock> PathLock::Take(const std::string& path) {
  const std::string name = absl::StrCat(path, ".lock");
  UniqueFd file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file.ok()) {
    const int error = errno;
    if (!MemoryFile::Exists(name)) return CannotMake(name, error);
    return Unfit(name, absl::StrCat("cannot be opened: ", strerror(error), "; it must be a file of this user"));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    return Unfit(name, "is no file of this process' user");
  }
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return Unfit(path, absl::StrCat("is in use by another server that lives (", name, " is locked)"));
  }
  return PathLock(std::move(file));
}

bool MemoryFile::Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

absl::Status MemoryFile::Remove(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) return Unfit(path, "is no file of this process' user");
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.ok() && HasWriter(file.get())) return Unfit(path, kInUse);
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return Unfit(path, absl::StrCat("cannot be removed: ", strerror(errno)));
}

absl::StatusOr<MemoryFile> MemoryFile::Open(const std::string& path, const SharedMemoryOptions& options) {
  if (absl::Status status = CheckNumaNode(options.numa_node); !status.ok()) return status;
  if (absl::Status status = CheckKernel(); !status.ok()) return status;
  const std::string folder = FolderOf(path);
  const absl::StatusOr<struct statfs> on = FileSystemOf(folder);
  if (!on.ok()) return on.status();
  const absl::StatusOr<HugePages> kind = KindOn(*on, options.huge_pages);
  if (!kind.ok()) return Exists(path) ? Unfit(path, kind.status().message()) : kind.status();
  const auto page = static_cast<uint64_t>(on->f_bsize);
  const uint64_t bytes = (options.bytes + page - 1) / page * page;
  if (absl::Status status = CheckFileSize(bytes); !status.ok()) return status;
  if (absl::Status status = CheckAddressSpace(bytes); !status.ok()) return status;

  UniqueFd read_only;
  absl::StatusOr<std::optional<UniqueFd>> existing = OpenExisting(path, bytes, &read_only);
  if (!existing.ok()) return existing.status();
  const bool is_new = !existing->has_value();
  if (is_new) {
    if (absl::Status status = CheckRoomOn(folder, *on, bytes, options.numa_node); !status.ok()) return status;
    absl::StatusOr<UniqueFd> made = MakeUnnamed(path, bytes, &read_only);
    if (!made.ok()) return made.status();
    *existing = *std::move(made);
  }
  UniqueFd file = **std::move(existing);

  absl::StatusOr<Mapping> mapping = Map(file.get(), bytes, /*writable=*/true);
  if (!mapping.ok()) return mapping.status();
  if (absl::Status status = BindToNode(*mapping, options.numa_node); !status.ok()) return status;
  if (options.in_core_dumps) madvise(mapping->data(), mapping->bytes(), MADV_DODUMP);
  const bool small = *kind != HugePages::k2MiB && *kind != HugePages::k1GiB;
  if (small && *kind != HugePages::kNone) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  if (const int error = Prefault(*mapping, options.prefault_threads, options.on_progress); error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the kernel has no memory for the ", bytes, " bytes of ", path,
        ", or its file system has no room: ", small ? std::string(strerror(error)) : HugePageAdvice(bytes, page)));
  }
  HugePages got = *kind;
  if (small) {
    got = TransparentBytes(mapping->data()) > mapping->bytes() / 2 ? HugePages::kTransparent : HugePages::kNone;
  }
  if (*kind == HugePages::kTransparent && got != *kind) {
    return absl::ResourceExhaustedError(absl::StrCat("--huge_pages=transparent: the kernel gave none for ", path,
                                                     "; mount the tmpfs with huge=advise or huge=always"));
  }
  return MemoryFile(path, is_new ? std::move(file) : UniqueFd(),
                    SharedMemory(std::move(read_only), *std::move(mapping), got));
}

absl::Status MemoryFile::Publish() {
  if (!is_new()) return absl::OkStatus();
  const std::string unnamed = absl::StrCat("/proc/self/fd/", new_file_.get());
  if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return errno == EEXIST ? Unfit(path_, "was made by another process just now") : CannotMake(path_, errno);
  }
  new_file_.reset();
  return absl::OkStatus();
}

}  // namespace farlook::rdma
