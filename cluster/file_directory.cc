#include "cluster/file_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/steady_time.h"

namespace farlook::cluster {
namespace {

constexpr size_t kDigits = 20;
constexpr uint32_t kXfs = 0x58465342, kZfs = 0x2fc12fc1;

// File systems of one host for which links, locks and inotify are known to work as required.
bool IsLocal(uint32_t type) {
  constexpr uint32_t kLocal[] = {EXT4_SUPER_MAGIC, kXfs, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
                                 F2FS_SUPER_MAGIC, kZfs};
  return std::find(std::begin(kLocal), std::end(kLocal), type) != std::end(kLocal);
}

std::string FileName(absl::string_view name, uint64_t revision) { return absl::StrFormat("%s.%020d", name, revision); }

// The file that is being written: hidden, with the record's file name and a random number.
std::string Unfinished(absl::string_view name, uint64_t revision) {
  uint64_t random = 0;
  while (getrandom(&random, sizeof random, 0) < 0 && errno == EINTR) {
  }
  return absl::StrCat(".", FileName(name, revision), ".", absl::Hex(random));
}

// The n of a file of `name`, or 0 for any other file.
uint64_t RevisionOf(absl::string_view name, absl::string_view file) {
  uint64_t revision = 0;
  if (!absl::ConsumePrefix(&file, name) || !absl::ConsumePrefix(&file, ".") || file.size() != kDigits ||
      !absl::SimpleAtoi(file, &revision)) {
    return 0;
  }
  return revision;
}

bool WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(file) == 0;
}

CasResult NotDone(absl::Status why) { return {.outcome = CasOutcome::kNotDone, .why = std::move(why)}; }

}  // namespace

absl::StatusOr<std::unique_ptr<FileDirectory>> FileDirectory::Open(absl::string_view path) {
  const std::string name(path);
  const auto error = [&name](absl::string_view what) {
    return absl::ErrnoToStatus(errno, absl::StrCat("directory of groups ", name, ": ", what));
  };
  // The folder is not created here: a mistyped name would begin a new group, with an empty table.
  const int folder = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 && errno == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat("directory of groups ", name, " is not there: correct its name, or create it for a new group"));
  }
  if (folder < 0) return error("cannot be opened");
  absl::Cleanup close_folder = [folder] { close(folder); };
  struct statfs system;
  if (fstatfs(folder, &system) != 0) return error("its file system is unknown");
  if (const auto type = static_cast<uint32_t>(system.f_type); !IsLocal(type)) {
    return absl::FailedPreconditionError(
        absl::StrCat("directory of groups ", name, " is on a file system of type ", absl::Hex(type),
                     ", and may be on ext4, xfs, btrfs, tmpfs, overlayfs, f2fs or zfs; for several hosts use etcd "
                     "(docs/cluster.md)"));
  }
  const int changes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (changes < 0) return error("inotify is not available (sysctl fs.inotify.max_user_instances)");
  if (inotify_add_watch(changes, name.c_str(), IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR) < 0) {
    const absl::Status status = error("cannot be watched (sysctl fs.inotify.max_user_watches)");
    close(changes);
    return status;
  }
  const int interrupt = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (interrupt < 0) {
    const absl::Status status = error("no event can be made (raise ulimit -n)");
    close(changes);
    return status;
  }
  std::move(close_folder).Cancel();
  return std::unique_ptr<FileDirectory>(new FileDirectory(path, folder, changes, interrupt));
}

FileDirectory::~FileDirectory() {
  close(interrupt_);
  close(changes_);
  close(folder_);
}

absl::Status FileDirectory::Error(int error, absl::string_view what) const {
  return absl::ErrnoToStatus(error, absl::StrCat("directory of groups ", path_, ": ", what));
}

absl::StatusOr<uint64_t> FileDirectory::Highest(absl::string_view name) {
  // A separate descriptor has a separate position in the folder.
  const int copy = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = copy < 0 ? nullptr : fdopendir(copy);
  if (listing == nullptr) {
    const int error = errno;
    if (copy >= 0) close(copy);
    return Error(error, "cannot be listed");
  }
  const absl::Cleanup close_listing = [listing] { closedir(listing); };
  uint64_t highest = 0;
  std::vector<std::string> unfinished;
  while (const dirent* const file = readdir(listing)) {
    const absl::string_view found = file->d_name;
    highest = std::max(highest, RevisionOf(name, found));
    if (absl::StartsWith(found, absl::StrCat(".", name, "."))) unfinished.emplace_back(found);
  }
  for (const std::string& found : unfinished) {
    const absl::string_view file = absl::string_view(found).substr(1, name.size() + 1 + kDigits);
    const uint64_t revision = RevisionOf(name, file);
    // If its writer still lives, it cannot link the file any more.
    if (revision != 0 && revision <= highest) unlinkat(folder_, found.c_str(), 0);
  }
  return highest;
}

absl::StatusOr<Entry> FileDirectory::Read(absl::string_view name, uint64_t revision) {
  Entry entry{.revision = revision};
  const std::string file_name = FileName(name, revision);
  const int file = openat(folder_, file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return Error(errno, absl::StrCat(file_name, " cannot be opened"));
  const absl::Cleanup close_file = [file] { close(file); };
  char bytes[4096];
  for (;;) {
    const ssize_t got = read(file, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(errno, absl::StrCat(file_name, " cannot be read"));
    if (got == 0) return entry;
    entry.value.append(bytes, static_cast<size_t>(got));
    if (entry.value.size() > kMaxRecordBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path_, "/", file_name, " is longer than any record"));
    }
  }
}

absl::StatusOr<Entry> FileDirectory::Get(absl::string_view name, Freshness /*freshness*/) {
  if (absl::Status status = CheckRecord(name, 0); !status.ok()) return status;
  const absl::StatusOr<uint64_t> highest = Highest(name);
  if (!highest.ok()) return highest.status();
  if (*highest == 0) return Entry();
  return Read(name, *highest);
}

CasResult FileDirectory::Cas(absl::string_view name, uint64_t expected, absl::string_view value) {
  if (absl::Status status = CheckRecord(name, value.size()); !status.ok()) return NotDone(std::move(status));
  const absl::StatusOr<uint64_t> highest = Highest(name);
  if (!highest.ok()) return NotDone(highest.status());
  if (*highest != expected) return {.outcome = CasOutcome::kConflict};
  const std::string beside = Unfinished(name, expected + 1), linked = FileName(name, expected + 1);
  const int file = openat(folder_, beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return NotDone(Error(errno, absl::StrCat(beside, " cannot be made")));
  const bool written = WriteAll(file, value);
  const int write_error = errno;
  close(file);
  const absl::Cleanup remove = [this, &beside] { unlinkat(folder_, beside.c_str(), 0); };
  if (!written) return NotDone(Error(write_error, absl::StrCat(beside, " cannot be written")));
  if (linkat(folder_, beside.c_str(), folder_, linked.c_str(), 0) != 0) {
    // ENOENT: another writer was first, and removed this file, which could no longer be linked.
    if (errno == EEXIST || errno == ENOENT) return {.outcome = CasOutcome::kConflict};
    return {.outcome = CasOutcome::kUnknown, .why = Error(errno, absl::StrCat(linked, " cannot be linked"))};
  }
  if (fsync(folder_) != 0) {
    return {.outcome = CasOutcome::kUnknown, .why = Error(errno, absl::StrCat(linked, " may not outlive a crash"))};
  }
  return {.outcome = CasOutcome::kDone, .revision = expected + 1};
}

absl::StatusOr<Entry> FileDirectory::Wait(absl::string_view name, uint64_t after, absl::Duration timeout) {
  const absl::Time end = SteadyNow() + timeout;
  for (;;) {
    // Earlier changes are seen by Get(); later ones wake the poll below.
    alignas(inotify_event) char events[4096];
    while (read(changes_, events, sizeof events) > 0) {
    }
    absl::StatusOr<Entry> entry = Get(name, Freshness::kLatest);
    if (!entry.ok() || entry->revision > after) return entry;
    if (entry->revision < after) {
      return absl::DataLossError(absl::StrCat("directory of groups ", path_, " has record ", entry->revision, " of ",
                                              name, " and had ", after, ": files were removed; put them back"));
    }
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(name, " did not change in ", absl::FormatDuration(timeout)));
    }
    pollfd events_of[2] = {{.fd = changes_, .events = POLLIN, .revents = 0},
                           {.fd = interrupt_, .events = POLLIN, .revents = 0}};
    // A second at most: inotify drops events when its queue is full.
    poll(events_of, 2, static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1000)));
    if (uint64_t count; read(interrupt_, &count, sizeof count) > 0) return absl::CancelledError("interrupted");
  }
}

void FileDirectory::Interrupt() {
  const uint64_t one = 1;
  while (write(interrupt_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace farlook::cluster
