#include "rdma/memory_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/host/sealed_memory.h"

namespace farlook::rdma {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 4 << 20;

class MemoryFileTest : public ::testing::Test {
 protected:
  MemoryFileTest() {
    char folder[] = "/dev/shm/farlook-test-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/table";
    options_.bytes = kBytes;
    options_.huge_pages = HugePages::kNone;
  }
  ~MemoryFileTest() override {
    const std::string command = absl::StrCat("rm -rf ", folder_);
    EXPECT_EQ(system(command.c_str()), 0);
  }

  absl::StatusOr<MemoryFile> Open() const { return MemoryFile::Open(path_, options_); }
  // Makes the file, with one word in it.
  void Make() const {
    absl::StatusOr<MemoryFile> file = Open();
    ASSERT_TRUE(file.ok()) << file.status();
    file->memory().data()[kBytes - 1] = 'x';
    ASSERT_TRUE(file->Publish().ok());
  }
  void ExpectUnfit(const std::string& why) const {
    const absl::Status status = Open().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  }

  std::string folder_, path_;
  SharedMemoryOptions options_;
};

TEST_F(MemoryFileTest, KeepsWhatWasStored) {
  {
    absl::StatusOr<MemoryFile> file = Open();
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->is_new());
    EXPECT_FALSE(MemoryFile::Exists(path_));
    EXPECT_EQ(file->memory().bytes(), kBytes);
    file->memory().data()[kBytes - 1] = 'x';
    ASSERT_TRUE(file->Publish().ok());
    EXPECT_FALSE(file->is_new());
    file->memory().data()[0] = 'y';  // after it has its name, too
  }
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFREG | 0600));
  EXPECT_GE(info.st_blocks * 512, static_cast<int64_t>(kBytes));
  {
    absl::StatusOr<MemoryFile> file = Open();
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_FALSE(file->is_new());
    EXPECT_EQ(file->memory().data()[0], 'y');
    EXPECT_EQ(file->memory().data()[kBytes - 1], 'x');
  }
  EXPECT_TRUE(MemoryFile::Remove(path_).ok());
  EXPECT_FALSE(MemoryFile::Exists(path_));
  EXPECT_TRUE(MemoryFile::Remove(path_).ok());
}

TEST_F(MemoryFileTest, LeavesNothingBehindUntilItHasItsName) {
  { ASSERT_TRUE(Open().ok()); }
  EXPECT_EQ(rmdir(folder_.c_str()), 0);
  EXPECT_EQ(mkdir(folder_.c_str(), 0700), 0);
}

TEST_F(MemoryFileTest, OthersMayOnlyRead) {
  Make();
  absl::StatusOr<MemoryFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  const int fd = file->memory().fd();
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_TRUE(CheckLasting(fd, geteuid(), kBytes).ok());
  EXPECT_FALSE(CheckLasting(fd, geteuid(), kBytes + 1).ok());
  EXPECT_EQ(CheckLasting(fd, geteuid() + 1, kBytes).ok(), geteuid() == 0);  // root is trusted
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_FALSE(CheckLasting(fd, geteuid(), kBytes).ok());
  const UniqueFd disk(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(CheckLasting(disk.get(), geteuid(), 1).ok());
}

TEST_F(MemoryFileTest, RefusesWhatIsInItsPlace) {
  ASSERT_EQ(symlink("/dev/shm/other", path_.c_str()), 0);
  ExpectUnfit("symbolic link");
  EXPECT_FALSE(MemoryFile::Remove(path_).ok());
  unlink(path_.c_str());
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  ExpectUnfit("no file");
  rmdir(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectUnfit("no file");
  unlink(path_.c_str());

  Make();
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  ExpectUnfit("mode is 644");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  options_.bytes = 2 * kBytes;
  ExpectUnfit("has 4194304 bytes, and this server's memory has 8388608");
  options_.bytes = kBytes;
  options_.huge_pages = HugePages::k2MiB;
  ExpectUnfit("--huge_pages=2m");
  options_.huge_pages = HugePages::kNone;
  ASSERT_EQ(truncate(path_.c_str(), kBytes - 4096), 0);
  ExpectUnfit("bytes");
  ASSERT_EQ(truncate(path_.c_str(), kBytes), 0);
  if (chown(path_.c_str(), 12345, 12345) == 0) {  // needs root, outside of Bazel's sandbox
    ExpectUnfit("belongs to the user 12345");
    EXPECT_FALSE(MemoryFile::Remove(path_).ok());
  }
}

TEST_F(MemoryFileTest, RefusesAFileThatAProcessHasMappedForWriting) {
  Make();
  ASSERT_EQ(rename(path_.c_str(), (path_ + "-2").c_str()), 0);
  path_ += "-2";
  absl::StatusOr<MemoryFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectUnfit("open in a process");
  EXPECT_FALSE(MemoryFile::Remove(path_).ok());
}

TEST_F(MemoryFileTest, TwoThatMakeItAtOnceDoNotReplaceEachOther) {
  absl::StatusOr<MemoryFile> first = Open(), second = Open();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(first->Publish().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(second->Publish()));
}

TEST_F(MemoryFileTest, NamesTheFileSystem) {
  EXPECT_TRUE(CheckMemoryPath(path_).ok());
  EXPECT_THAT(std::string(CheckMemoryPath("/proc/table").message()), HasSubstr("must be memory"));
  EXPECT_THAT(std::string(CheckMemoryPath("table").message()), HasSubstr("absolute"));
  EXPECT_THAT(std::string(CheckMemoryPath(folder_ + "/no/table").message()), HasSubstr("No such file"));
  options_.huge_pages = HugePages::k1GiB;
  EXPECT_TRUE(absl::IsInvalidArgument(Open().status()));
}

TEST_F(MemoryFileTest, SaysHowMuchRoomThereIs) {
  options_.bytes = uint64_t{1} << 46;
  const absl::Status status = Open().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(MemoryFileTest, OneProcessHasTheLock) {
  absl::StatusOr<PathLock> lock = PathLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status second = PathLock::Take(path_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("another server that lives"));
  { const PathLock ends = *std::move(lock); }
  EXPECT_TRUE(PathLock::Take(path_).ok());
  // Expect: it ends with a process that is killed.
  const pid_t child = fork();
  if (child == 0) {
    const auto taken = PathLock::Take(path_);
    raise(SIGKILL);
    _exit(taken.ok() ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(PathLock::Take(path_).ok());
  const absl::Status forbidden = PathLock::Take("/sys/table").status();
  EXPECT_TRUE(absl::IsPermissionDenied(forbidden)) << forbidden;
  unlink((path_ + ".lock").c_str());
  ASSERT_EQ(symlink("/dev/shm/other", (path_ + ".lock").c_str()), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(PathLock::Take(path_).status()));
}

}  // namespace
}  // namespace farlook::rdma
