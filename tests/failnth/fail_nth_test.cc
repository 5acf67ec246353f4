// Every system call and allocation of start-up, connect, load and shutdown fails once.
#include "client/cell_cache.h"
#include "gtest/gtest.h"
#include "tests/failnth/calls.h"
#include "tests/failnth/campaign.h"

namespace farlook::failnth {
namespace {

TEST(FailNthTest, EverySystemCallGivesAStatus) {
  const Summary summary = FailEveryNth({Kind::kSystemCall});
  Print(summary);
  EXPECT_TRUE(summary.failures.empty()) << summary.failures.size() << " failures";
  // What the linker no longer leads here would never fail.
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

}  // namespace
}  // namespace farlook::failnth
