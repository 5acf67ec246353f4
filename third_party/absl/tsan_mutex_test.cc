// Each way in which Abseil's synchronization orders two threads, with plain
// memory on both sides.  Says most with --config=tsan, where a lost wrapper is
// a report of a race.

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace {

constexpr absl::Duration kLong = absl::Minutes(1);

struct Shared {
  absl::Mutex mutex;
  absl::CondVar changed;
  int count ABSL_GUARDED_BY(mutex) = 0;
};

// A condition: true once the other thread has counted.
bool Counted(Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS { return shared->count == 1; }

void CountOne(Shared* shared) {
  absl::MutexLock lock(&shared->mutex);
  ++shared->count;
  shared->changed.SignalAll();
}

// Runs `wait` against a thread that counts, and reads the count after it.
// `wait` returns with the mutex held.
void ExpectOrdered(const std::function<void(Shared*)>& wait,
                   void (absl::Mutex::*unlock)() = &absl::Mutex::Unlock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (int round = 0; round < 50; ++round) {
    Shared shared;
    std::thread counter(CountOne, &shared);
    wait(&shared);
    EXPECT_EQ(shared.count, 1);
    (shared.mutex.*unlock)();
    counter.join();
  }
}

TEST(TsanMutexTest, LocksOrder) {
  Shared shared;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) CountOne(&shared);
  });
  for (int i = 0; i < 1000; ++i) {
    if (shared.mutex.TryLock()) {
      ++shared.count;
      shared.mutex.Unlock();
    } else {
      CountOne(&shared);
    }
    absl::ReaderMutexLock lock(&shared.mutex);
    EXPECT_GT(shared.count, i);
  }
  other.join();
  const bool locked = shared.mutex.ReaderTryLock();
  ASSERT_TRUE(locked);
  if (!locked) return;  // for the thread safety analysis
  EXPECT_EQ(shared.count, 2000);
  shared.mutex.ReaderUnlock();
}

TEST(TsanMutexTest, ConditionVariablesOrder) {
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.Lock();
    while (!Counted(shared)) shared->changed.Wait(&shared->mutex);
  });
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.Lock();
    while (!Counted(shared)) {
      shared->changed.WaitWithTimeout(&shared->mutex, kLong);
    }
  });
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.Lock();
    while (!Counted(shared)) {
      shared->changed.WaitWithDeadline(&shared->mutex, absl::InfiniteFuture());
    }
  });
}

TEST(TsanMutexTest, AwaitOrders) {
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.Lock();
    shared->mutex.Await(absl::Condition(Counted, shared));
  });
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.Lock();
    shared->mutex.AwaitWithTimeout(absl::Condition(Counted, shared), kLong);
  });
  ExpectOrdered(
      [](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        shared->mutex.ReaderLock();
        shared->mutex.AwaitWithDeadline(absl::Condition(Counted, shared), absl::InfiniteFuture());
      },
      &absl::Mutex::ReaderUnlock);
}

TEST(TsanMutexTest, LockWhenOrders) {
  ExpectOrdered([](Shared* shared)
                    ABSL_NO_THREAD_SAFETY_ANALYSIS { shared->mutex.LockWhen(absl::Condition(Counted, shared)); });
  ExpectOrdered([](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    shared->mutex.LockWhenWithTimeout(absl::Condition(Counted, shared), kLong);
  });
  ExpectOrdered(
      [](Shared* shared) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        shared->mutex.ReaderLockWhenWithDeadline(absl::Condition(Counted, shared), absl::InfiniteFuture());
      },
      &absl::Mutex::ReaderUnlock);
}

TEST(TsanMutexTest, NotificationOrders) {
  for (int round = 0; round < 50; ++round) {
    absl::Notification done;
    int value = 0;
    std::thread writer([&] {
      value = 1;
      done.Notify();
    });
    if (round % 2 == 0) {
      while (!done.HasBeenNotified()) std::this_thread::yield();
    } else {
      done.WaitForNotification();
    }
    EXPECT_EQ(value, 1);
    writer.join();
  }
}

TEST(TsanMutexTest, BlockingCounterAndBarrierOrder) {
  for (int round = 0; round < 50; ++round) {
    absl::BlockingCounter written(2);
    auto* met = new absl::Barrier(2);
    int left = 0;
    int right = 0;
    std::thread first([&] {
      left = 1;
      written.DecrementCount();
      if (met->Block()) delete met;
    });
    std::thread second([&] {
      right = 1;
      written.DecrementCount();
      if (met->Block()) delete met;
      left = 2;
    });
    written.Wait();
    EXPECT_EQ(right, 1);
    first.join();
    second.join();
    EXPECT_EQ(left, 2);
  }
}

}  // namespace
