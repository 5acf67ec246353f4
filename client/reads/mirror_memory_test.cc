#include "client/reads/mirror_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farlook::client {
namespace {

constexpr uint64_t kBytes = 1 << 20;

class MirrorMemoryTest : public testing::Test {
 protected:
  MirrorMemoryTest() : directory_(absl::StrCat(testing::TempDir(), "/mirrors")) { mkdir(directory_.c_str(), 0700); }
  ~MirrorMemoryTest() override { rmdir(directory_.c_str()); }

  std::string LinkOf(uint64_t incarnation) const {
    return absl::StrCat(directory_, "/farlook-mirror-", absl::Hex(incarnation), "-", absl::Hex(kBytes), "-by-id");
  }
  bool IsThere(const std::string& path) const {
    struct stat status;
    return lstat(path.c_str(), &status) == 0;
  }

  const std::string directory_;
};

TEST_F(MirrorMemoryTest, PrivateMemoryIsZero) {
  EXPECT_EQ(MirrorMemory().data(), nullptr);
  const MirrorMemory memory = MirrorMemory::Private(kBytes);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(memory.bytes(), kBytes);
  EXPECT_EQ(memory.data()[0] | memory.data()[kBytes - 1], 0);
}

// Returns whether core dumps omit the mapping that begins at `data`.
bool IsLeftOut(const char* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = absl::StrCat(absl::Hex(reinterpret_cast<uintptr_t>(data)), "-");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found |= line.rfind(begin, 0) == 0;
    if (found && line.rfind("VmFlags:", 0) == 0) return line.find(" dd") != std::string::npos;
  }
  return false;
}

TEST_F(MirrorMemoryTest, NothingOfItIsInCoreDumps) {
  EXPECT_TRUE(IsLeftOut(MirrorMemory::Private(kBytes).data()));
  EXPECT_TRUE(IsLeftOut(MirrorMemory::Shared(directory_, 7, kBytes).data()));
}

TEST_F(MirrorMemoryTest, ThoseOfOneTableShareItAndOthersDoNot) {
  MirrorMemory one = MirrorMemory::Shared(directory_, 7, kBytes);
  const MirrorMemory same = MirrorMemory::Shared(directory_, 7, kBytes);
  const MirrorMemory other = MirrorMemory::Shared(directory_, 8, kBytes);
  const MirrorMemory longer = MirrorMemory::Shared(directory_, 7, 2 * kBytes);
  ASSERT_NE(one.data(), nullptr);
  ASSERT_NE(same.data(), nullptr);
  one.data()[5] = 'x';
  EXPECT_EQ(same.data()[5], 'x');
  EXPECT_EQ(other.data()[5], 0);
  EXPECT_EQ(longer.data()[5], 0);
}

TEST_F(MirrorMemoryTest, ALimitOfFileSizesIsNoSignal) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low = {kBytes - 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const MirrorMemory memory = MirrorMemory::Shared(directory_, 7, kBytes);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(memory.data(), nullptr);
}

TEST_F(MirrorMemoryTest, AnotherProcessHasTheSame) {
  const MirrorMemory memory = MirrorMemory::Shared(directory_, 7, kBytes);
  const pid_t child = fork();
  if (child == 0) {
    const MirrorMemory same = MirrorMemory::Shared(directory_, 7, kBytes);
    if (same.data() == nullptr || same.data() == memory.data()) _exit(1);
    same.data()[9] = 'y';
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory.data()[9], 'y');
}

TEST_F(MirrorMemoryTest, ItOutlivesWhoMadeItAndTheLinkDoesNot) {
  MirrorMemory first = MirrorMemory::Shared(directory_, 7, kBytes);
  const MirrorMemory second = MirrorMemory::Shared(directory_, 7, kBytes);
  first.data()[0] = 'x';
  EXPECT_TRUE(IsThere(LinkOf(7)));
  first = MirrorMemory();
  EXPECT_FALSE(IsThere(LinkOf(7)));
  EXPECT_EQ(second.data()[0], 'x');
  // Expect: a later process begins with new memory, and removes no link of another.
  MirrorMemory third = MirrorMemory::Shared(directory_, 7, kBytes);
  EXPECT_EQ(third.data()[0], 0);
  EXPECT_TRUE(IsThere(LinkOf(7)));
}

TEST_F(MirrorMemoryTest, ADeadLinkIsReplaced) {
  ASSERT_EQ(symlink("/proc/1/fd/123456", LinkOf(7).c_str()), 0);
  const MirrorMemory memory = MirrorMemory::Shared(directory_, 7, kBytes);
  ASSERT_NE(memory.data(), nullptr);
  // Expect: it leads to this one now.
  memory.data()[3] = 'x';
  EXPECT_EQ(MirrorMemory::Shared(directory_, 7, kBytes).data()[3], 'x');
}

TEST_F(MirrorMemoryTest, WhoMakesOneTakesDeadLinksAway) {
  const MirrorMemory other = MirrorMemory::Shared(directory_, 8, kBytes);
  const std::string half_made = LinkOf(9) + ".17.4";  // by a process that was killed between two steps
  const std::string not_ours = directory_ + "/other";
  for (const std::string& link : {LinkOf(6), half_made, not_ours}) {
    ASSERT_EQ(symlink("/proc/1/fd/123456", link.c_str()), 0);
  }
  const MirrorMemory memory = MirrorMemory::Shared(directory_, 7, kBytes);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_FALSE(IsThere(LinkOf(6)));
  EXPECT_FALSE(IsThere(half_made));
  EXPECT_TRUE(IsThere(LinkOf(8)));
  EXPECT_TRUE(IsThere(not_ours));
  unlink(not_ours.c_str());
}

TEST_F(MirrorMemoryTest, ALinkThatWasReplacedIsNotTakenAway) {
  MirrorMemory old = MirrorMemory::Shared(directory_, 7, kBytes);
  unlink(LinkOf(7).c_str());
  const MirrorMemory young = MirrorMemory::Shared(directory_, 7, kBytes);
  old = MirrorMemory();
  EXPECT_TRUE(IsThere(LinkOf(7)));
}

// The link may lead to anything: a number that belongs to another file by now, or a file of a hostile process of this
// user.
TEST_F(MirrorMemoryTest, NothingElseIsTakenForAMirror) {
  const std::string name = absl::StrCat("farlook-mirror-", absl::Hex(7), "-", absl::Hex(kBytes), "-by-id");
  const auto make = [](const std::string& called, uint64_t bytes, int seals) {
    const int fd = memfd_create(called.c_str(), MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_TRUE(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
  };
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const std::vector<int> strange = {make("another", kBytes, kAll), make(name, kBytes - 4096, kAll),
                                    make(name, kBytes, 0), make(name, kBytes, F_SEAL_GROW | F_SEAL_SEAL),
                                    open("/dev/null", O_RDWR)};
  for (const int fd : strange) {
    SCOPED_TRACE(fd);
    unlink(LinkOf(7).c_str());
    ASSERT_EQ(symlink(absl::StrCat("/proc/self/fd/", fd).c_str(), LinkOf(7).c_str()), 0);
    const MirrorMemory memory = MirrorMemory::Shared(directory_, 7, kBytes);
    ASSERT_NE(memory.data(), nullptr);
    std::memset(memory.data(), 'x', kBytes);
    char byte = 0;
    EXPECT_LE(pread(fd, &byte, 1, 0), 1);
    EXPECT_EQ(byte, 0) << "a strange file was stored to";
    // Expect: the link leads to the mirror now.
    EXPECT_EQ(MirrorMemory::Shared(directory_, 7, kBytes).data()[1], 'x');
    close(fd);
  }
}

TEST_F(MirrorMemoryTest, WithoutADirectoryThereIsNone) {
  EXPECT_EQ(MirrorMemory::Shared(absl::StrCat(directory_, "/absent"), 7, kBytes).data(), nullptr);
}

TEST_F(MirrorMemoryTest, LinksLieWhereOnlyThisUserCanChangeThem) {
  chmod(directory_.c_str(), 0700);
  setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  EXPECT_EQ(MirrorMemory::DirectoryOfUser(), directory_ + "/farlook");
  chmod((directory_ + "/farlook").c_str(), 0777);
  EXPECT_EQ(MirrorMemory::DirectoryOfUser(), "");
  rmdir((directory_ + "/farlook").c_str());
  // Expect: a directory that others can write to, or that does not exist, is not used.
  chmod(directory_.c_str(), 0777);
  EXPECT_EQ(MirrorMemory::DirectoryOfUser(), absl::StrCat("/dev/shm/farlook-", geteuid()));
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(MirrorMemory::DirectoryOfUser(), absl::StrCat("/dev/shm/farlook-", geteuid()));
}

}  // namespace
}  // namespace farlook::client
