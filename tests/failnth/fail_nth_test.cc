// Every system call and allocation of start-up, connect, load and shutdown fails once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/counters/cell_cache.h"
#include "gtest/gtest.h"
#include "rdma/shared_memory.h"
#include "tests/failnth/calls.h"
#include "tests/failnth/campaign.h"

namespace farlook::failnth {
namespace {

TEST(FailNthTest, EverySystemCallGivesAStatus) {
  const Summary summary = FailEveryNth({Kind::kSystemCall});
  Print(summary);
  EXPECT_TRUE(summary.failures.empty()) << summary.failures.size() << " failures";
  // A call that the linker no longer redirects here would never fail.
  for (const char* name :
       {"accept4", "bind",  "connect",        "epoll_create1",  "epoll_ctl",    "epoll_wait", "eventfd",
        "fcntl",   "flock", "fstat",          "fstatfs",        "ftruncate",    "getrandom",  "getsockopt",
        "listen",  "lstat", "madvise",        "mbind",          "memfd_create", "mmap",       "open",
        "poll",    "ppoll", "pthread_create", "pwrite",         "read",         "recvmsg",    "sendmsg",
        "socket",  "stat",  "std::thread",    "timerfd_create", "write"}) {
    EXPECT_TRUE(summary.by_name.contains(name)) << name << " was never failed";
  }
}

TEST(FailNthTest, EveryLargeAllocationGivesAStatus) {
  const Summary summary = FailEveryNth({Kind::kLargeAllocation});
  Print(summary);
  EXPECT_TRUE(summary.failures.empty()) << summary.failures.size() << " failures";
  EXPECT_GT(summary.by_name.size(), 0u);
}

TEST(FailNthTest, ASmallAllocationEndsTheProcessWithAMessage) {
  Plan plan{Kind::kSmallAllocation};
  plan.of_each_place = 1;
  plan.may_end = true;
  const Summary summary = FailEveryNth(plan);
  Print(summary);
  EXPECT_TRUE(summary.failures.empty()) << summary.failures.size() << " failures";
  EXPECT_GT(summary.ended, 0u);
}

// A stale cell would be another counter's. madvise() fails where a process has locked its memory.
TEST(FailNthTest, ACacheWhosePagesCannotBeGivenBackIsEmptyWhenCleared) {
  const client::CellCache::Id id = {1, 2};
  client::CellCache cache(1 << 16);
  Report report = {};
  Expect({Kind::kSystemCall, /*place=*/0, /*nth=*/2, /*error=*/0}, &report);  // the first is mmap
  cache.Insert(id, 64);
  EXPECT_EQ(cache.Find(id), 64u);
  cache.Clear();
  Forget();
  EXPECT_STREQ(report.name, "madvise");
  EXPECT_EQ(cache.Find(id), 0u);
}

// A server's memory is cleared by several threads. Where some cannot be started, the others do their part.
TEST(FailNthTest, MemoryIsAllocatedByWhatThreadsThereAre) {
  rdma::SharedMemoryOptions options;
  options.bytes = 257 << 20;  // three threads have something to do
  options.huge_pages = rdma::HugePages::kNone;
  options.prefault_threads = 3;
  const auto create = [&options](const Choice& choice, Report* report) {
    Expect(choice, report);
    absl::StatusOr<rdma::SharedMemory> memory = rdma::SharedMemory::Create(options);
    Forget();
    return memory;
  };
  uintptr_t place = 0;  // where they are started
  for (uint64_t nth = 1; place == 0; ++nth) {
    Report report = {};
    create({Kind::kSystemCall, /*place=*/0, nth, /*error=*/0}, &report).IgnoreError();
    ASSERT_TRUE(report.failed) << "no thread was started";
    if (std::string(report.name) == "std::thread") place = report.site;
  }
  for (const uint64_t nth : {1, 2}) {
    Report report = {};
    const absl::StatusOr<rdma::SharedMemory> memory = create({Kind::kSystemCall, place, nth, /*error=*/0}, &report);
    ASSERT_STREQ(report.name, "std::thread");
    ASSERT_TRUE(memory.ok()) << memory.status();
    std::vector<unsigned char> resident(memory->bytes() / static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    ASSERT_EQ(mincore(memory->data(), memory->bytes(), resident.data()), 0);
    EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }),
              static_cast<ptrdiff_t>(resident.size()));
  }
}

}  // namespace
}  // namespace farlook::failnth
