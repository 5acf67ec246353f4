#include "rdma/host_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"

namespace {

bool kernel_is_old = false;

}  // namespace

// Replaces the C library's.
extern "C" int madvise(void* address, size_t bytes, int advice) noexcept {
  if (kernel_is_old && advice == MADV_POPULATE_WRITE) {
    errno = EINVAL;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(void*, size_t, int)>(dlsym(RTLD_NEXT, "madvise"));
  return real(address, bytes, advice);
}

namespace farlook::rdma {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(CheckRoomTest, SaysItsMarginAndWhatFits) {
  EXPECT_EQ(
      CheckRoom(20480 * kMiB, 20497 * kMiB, "this host has available", "free memory").message(),
      "20480 MiB of memory were asked for, and this host has available 20497 MiB, of which 320 MiB are left to the "
      "rest of the system; ask for less (20181 MiB at most), or free memory");
  EXPECT_TRUE(CheckRoom(20480 * kMiB, 20800 * kMiB, "", "").ok());
  EXPECT_FALSE(CheckRoom(20480 * kMiB, 20799 * kMiB, "", "").ok());
}

TEST(CheckRoomTest, WhatItSaysFits) {
  EXPECT_TRUE(CheckRoom(20181 * kMiB, 20497 * kMiB, "", "").ok());
  EXPECT_TRUE(CheckRoom(68 * kMiB, 100 * kMiB, "", "").ok());
  EXPECT_THAT(std::string(CheckRoom(69 * kMiB, 100 * kMiB, "", "").message()), testing::HasSubstr("(68 MiB at most)"));
  // Expect: if nothing fits, no size is suggested.
  EXPECT_THAT(std::string(CheckRoom(kMiB, 10 * kMiB, "", "go").message()), testing::HasSubstr("ask for less, or go"));
  EXPECT_FALSE(CheckRoom(UINT64_MAX, UINT64_MAX, "", "").ok());
}

TEST(CheckKernelTest, AnOldKernelIsNamedBeforeMemoryIsTaken) {
  EXPECT_TRUE(CheckKernel().ok()) << CheckKernel();
  kernel_is_old = true;
  const absl::Status status = CheckKernel();
  SharedMemoryOptions options;
  options.bytes = kMiB;
  const absl::Status created = SharedMemory::Create(options).status();
  kernel_is_old = false;
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Linux 5.14"));
  EXPECT_EQ(created, status);
}

}  // namespace
}  // namespace farlook::rdma
