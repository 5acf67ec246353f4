#include "client/reads/mirror_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farlook::client {
namespace {

constexpr absl::string_view kPrefix = "farlook-mirror-";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string TargetOf(const std::string& link) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  return length <= 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

// Returns whether a descriptor is a memory file that was made under this name and is sealed. The number in a link may
// belong to another file by now, and storing there would corrupt it.
bool IsMirror(int fd, absl::string_view name, uint64_t bytes) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         static_cast<uint64_t>(status.st_size) == bytes && fcntl(fd, F_GET_SEALS) == kSeals &&
         TargetOf(absl::StrCat("/proc/self/fd/", fd)) == absl::StrCat("/memfd:", name, " (deleted)");
}

// Returns whether it is a directory that only this user can change.
bool IsOwn(const std::string& directory) {
  struct stat status;
  return lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Removes links of processes that were killed. A link that is replaced at this moment may be removed too; then later
// processes share another file.
void RemoveDeadLinks(const std::string& directory) {
  DIR* const links = opendir(directory.c_str());
  if (links == nullptr) return;
  while (const dirent* const entry = readdir(links)) {
    struct stat status;
    if (!absl::StartsWith(entry->d_name, kPrefix)) continue;
    if (fstatat(dirfd(links), entry->d_name, &status, 0) == 0 || errno != ENOENT) continue;
    unlinkat(dirfd(links), entry->d_name, 0);
  }
  closedir(links);
}

}  // namespace

MirrorMemory::~MirrorMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ < 0) return;
  // The link may have been replaced by another process; then it leads elsewhere.
  if (TargetOf(link_) == absl::StrCat("/proc/", getpid(), "/fd/", fd_)) unlink(link_.c_str());
  close(fd_);
}

MirrorMemory& MirrorMemory::operator=(MirrorMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  std::swap(link_, other.link_);
  return *this;
}

bool MirrorMemory::Map(int fd, uint64_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return false;
  madvise(memory, bytes, MADV_DONTDUMP);
  data_ = static_cast<char*>(memory);
  bytes_ = bytes;
  return true;
}

MirrorMemory MirrorMemory::Private(uint64_t bytes) {
  MirrorMemory memory;
  memory.Map(-1, bytes);
  return memory;
}

std::string MirrorMemory::DirectoryOfUser() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string directory = runtime != nullptr && runtime[0] == '/' && IsOwn(runtime)
                                    ? absl::StrCat(runtime, "/farlook")
                                    : absl::StrCat("/dev/shm/farlook-", geteuid());
  mkdir(directory.c_str(), S_IRWXU);  // if it does not exist
  return IsOwn(directory) ? directory : std::string();
}

MirrorMemory MirrorMemory::Shared(absl::string_view directory, uint64_t incarnation, uint64_t bytes) {
  // Earlier releases place images differently, and so have memory of their own.
  const std::string name = absl::StrCat(kPrefix, absl::Hex(incarnation), "-", absl::Hex(bytes), "-by-id");
  const std::string link = absl::StrCat(directory, "/", name);
  // A foreign link may lead to a terminal or a pipe: do not wait for it, nor take it over.
  const int fd = open(link.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Make(directory, name, bytes);
  MirrorMemory memory;
  const bool mapped = IsMirror(fd, name, bytes) && memory.Map(fd, bytes);
  close(fd);
  return mapped ? std::move(memory) : Make(directory, name, bytes);
}

MirrorMemory MirrorMemory::Make(absl::string_view directory, absl::string_view name, uint64_t bytes) {
  RemoveDeadLinks(std::string(directory));
  MirrorMemory memory;
  memory.fd_ = memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.fd_ < 0) return {};
  // Beyond the limit of file sizes the kernel would send SIGXFSZ, which ends the process.
  if (rlimit limit; getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) return {};
  memory.link_ = absl::StrCat(directory, "/", name);
  if (ftruncate(memory.fd_, static_cast<off_t>(bytes)) != 0 || fcntl(memory.fd_, F_ADD_SEALS, kSeals) != 0) return {};
  const std::string target = absl::StrCat("/proc/", getpid(), "/fd/", memory.fd_);
  const std::string own = absl::StrCat(memory.link_, ".", getpid(), ".", memory.fd_);
  if (symlink(target.c_str(), own.c_str()) != 0) return {};
  if (rename(own.c_str(), memory.link_.c_str()) != 0 || !memory.Map(memory.fd_, bytes)) {
    unlink(own.c_str());
    return {};
  }
  return memory;
}

}  // namespace farlook::client
