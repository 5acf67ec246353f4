#include "rdma/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::rdma {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

SharedMemoryOptions Options(uint64_t bytes, HugePages pages) {
  SharedMemoryOptions options;
  options.bytes = bytes;
  options.huge_pages = pages;
  return options;
}

// Returns the value of a "VmRSS"-like line of a /proc file, in KiB.
int64_t ProcKiB(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) == 0) return atoll(line.c_str() + name.size());
  }
  return -1;
}

TEST(SharedMemoryTest, SmallPagesAreZeroedWritableAndResident) {
  const int64_t before_kib = ProcKiB("/proc/self/status", "RssShmem:");
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(8 * kMiB + 1, HugePages::kNone));
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->huge_pages(), HugePages::kNone);
  EXPECT_EQ(memory->page_bytes(), 4096u);
  EXPECT_EQ(memory->bytes(), 8 * kMiB + 4096);
  EXPECT_GE(ProcKiB("/proc/self/status", "RssShmem:") - before_kib, 8192);
  for (uint64_t i = 0; i < memory->bytes(); i += 4096) ASSERT_EQ(memory->data()[i], 0);
  memset(memory->data(), 1, memory->bytes());
}

TEST(SharedMemoryTest, AutoSaysWhatItGotAndHowToGetBetter) {
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(8 * kMiB, HugePages::kAuto));
  ASSERT_TRUE(memory.ok()) << memory.status();
  switch (memory->huge_pages()) {
    case HugePages::kTransparent:
    case HugePages::kNone:
      EXPECT_THAT(memory->advice(), AnyOf(HasSubstr("nr_hugepages"), HasSubstr("2 MiB")));
      break;
    case HugePages::k2MiB:
      EXPECT_EQ(memory->advice(), "");
      break;
    default:
      FAIL() << "got " << HugePagesName(memory->huge_pages());
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % memory->page_bytes(), 0u);
}

TEST(SharedMemoryTest, ExplicitPagesAreHadOrTheErrorNamesTheCommand) {
  for (const HugePages pages : {HugePages::k1GiB, HugePages::k2MiB, HugePages::kTransparent}) {
    // More than any pool has, to see the error, and a size that may work.
    for (const uint64_t bytes : {uint64_t{4} << 40, 2 * kMiB}) {
      absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(bytes, pages));
      if (memory.ok()) {
        EXPECT_EQ(memory->huge_pages(), pages);
        continue;
      }
      EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted) << memory.status();
      EXPECT_THAT(std::string(memory.status().message()),
                  AnyOf(HasSubstr("echo "), HasSubstr("ask for less"), HasSubstr("this kernel or CPU has no pages")));
    }
  }
}

TEST(SharedMemoryTest, MoreThanThereIsIsAnErrorAndNoSignal) {
  const uint64_t host_bytes = static_cast<uint64_t>(ProcKiB("/proc/meminfo", "MemTotal:")) * 1024;
  for (const HugePages pages : {HugePages::kAuto, HugePages::kNone}) {
    absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(host_bytes * 2, pages));
    EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(memory.status().message()), HasSubstr("ask for less"));
  }
  EXPECT_EQ(SharedMemory::Create(Options(UINT64_MAX - 5, HugePages::kNone)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(SharedMemoryTest, BindsToANodeThatExists) {
  SharedMemoryOptions options = Options(4 * kMiB, HugePages::kNone);
  options.numa_node = 0;
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(options);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::ifstream lines("/proc/self/numa_maps");
  bool bound = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("farlook-memory") != std::string::npos && line.find("bind:0") != std::string::npos) bound = true;
  }
  EXPECT_TRUE(bound);

  options.numa_node = 999;
  const absl::Status status = SharedMemory::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no NUMA node 999; the nodes of this host are: 0"));
}

TEST(SharedMemoryTest, BadOptionsAreRefused) {
  EXPECT_EQ(SharedMemory::Create(SharedMemoryOptions()).status().code(), absl::StatusCode::kInvalidArgument);
  SharedMemoryOptions options = Options(2 * kMiB, HugePages::k2MiB);
  options.access = Access::kRemoteReadAtomic;
  EXPECT_EQ(SharedMemory::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SharedMemoryTest, NamesOfPagesRoundTrip) {
  for (const char* name : {"auto", "1g", "2m", "transparent", "none"}) {
    absl::StatusOr<HugePages> pages = ParseHugePages(name);
    ASSERT_TRUE(pages.ok());
    EXPECT_EQ(HugePagesName(*pages), name);
  }
  EXPECT_THAT(std::string(ParseHugePages("4k").status().message()),
              HasSubstr("none of auto, 1g, 2m, transparent, none"));
}

// Tries every way to write through a descriptor as given to a client.
void ExpectNotWritable(int fd, uint64_t bytes) {
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes * 2)), -1);
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  void* const readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_EQ(mprotect(readable, 4096, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(madvise(readable, 4096, MADV_REMOVE), -1);
  munmap(readable, 4096);
}

TEST(SharedMemoryTest, TheDescriptorCannotBeWrittenThrough) {
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(4 * kMiB, HugePages::kNone));
  ASSERT_TRUE(memory.ok()) << memory.status();
  memset(memory->data(), 7, memory->bytes());
  ExpectNotWritable(memory->fd(), memory->bytes());
  // Reopening returns a writable descriptor of the same sealed memory.
  const int reopened = open(absl::StrCat("/proc/self/fd/", memory->fd()).c_str(), O_RDWR);
  ASSERT_GE(reopened, 0);
  ExpectNotWritable(reopened, memory->bytes());
  close(reopened);
  EXPECT_LT(open(absl::StrCat("/proc/self/fd/", memory->fd()).c_str(), O_RDWR | O_TRUNC), 0);
  for (uint64_t i = 0; i < memory->bytes(); ++i) ASSERT_EQ(memory->data()[i], 7);
  // Expect: its owner can still write.
  memory->data()[0] = 8;
}

TEST(SharedMemoryTest, MovesAndGivesEverythingBack) {
  const int64_t before_kib = ProcKiB("/proc/self/status", "RssShmem:");
  {
    absl::StatusOr<SharedMemory> memory = SharedMemory::Create(Options(4 * kMiB, HugePages::kNone));
    ASSERT_TRUE(memory.ok()) << memory.status();
    const char* const data = memory->data();
    SharedMemory moved = *std::move(memory);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(moved.range().fd, moved.fd());
    EXPECT_EQ(moved.range().bytes, moved.bytes());
  }
  EXPECT_LT(ProcKiB("/proc/self/status", "RssShmem:") - before_kib, 1024);
}

}  // namespace
}  // namespace farlook::rdma
