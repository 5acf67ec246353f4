// Tells the thread sanitizer about absl::Mutex.
//
// Debian's Abseil was compiled without the sanitizer, which therefore sees no
// order between an Unlock() and the next Lock() and reports races where there
// are none.  With --config=tsan the linker sends each call of a function below
// to its wrapper (--wrap in BUILD), which announces it to the sanitizer and
// calls the real one.  Conditions of Await() and LockWhen() are evaluated by
// any thread on behalf of another, under the lock: accesses in them are not
// checked.

#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <cstdint>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

using absl::BlockingCounter;
using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

constexpr unsigned kWriter = 0;
constexpr unsigned kReader = __tsan_mutex_read_lock;

// Announces that `call` gives back `mutex` locked.
template <typename Call>
auto AcquireAround(Mutex* mutex, unsigned flags, Call call) {
  struct Announced {
    Announced(Mutex* m, unsigned f) : mutex(m), flags(f) { __tsan_mutex_pre_lock(mutex, flags); }
    ~Announced() { __tsan_mutex_post_lock(mutex, flags, 0); }
    Mutex* const mutex;
    const unsigned flags;
  } announced(mutex, flags);
  return call();
}

template <typename Call>
void ReleaseAround(Mutex* mutex, unsigned flags, Call call) {
  __tsan_mutex_pre_unlock(mutex, flags);
  call();
  __tsan_mutex_post_unlock(mutex, flags);
}

template <typename Call>
bool TryAcquireAround(Mutex* mutex, unsigned flags, Call call) {
  flags |= __tsan_mutex_try_lock;
  __tsan_mutex_pre_lock(mutex, flags);
  const bool locked = call();
  __tsan_mutex_post_lock(mutex, locked ? flags : flags | __tsan_mutex_try_lock_failed, 0);
  return locked;
}

// How the calling thread holds `mutex`; bit 3 of its first word is kMuWriter.
unsigned HeldAs(const Mutex* mutex) {
  const auto* word = reinterpret_cast<const std::atomic<intptr_t>*>(mutex);
  return (word->load(std::memory_order_relaxed) & 8) != 0 ? kWriter : kReader;
}

// Announces that `call` unlocks `mutex` while it waits.
template <typename Call>
auto WaitAround(Mutex* mutex, Call call) {
  const unsigned flags = HeldAs(mutex);
  __tsan_mutex_pre_unlock(mutex, flags);
  __tsan_mutex_post_unlock(mutex, flags);
  return AcquireAround(mutex, flags, call);
}

// The atomic behind the mutex, whose load in HasBeenNotified() is inline and so
// seen by the sanitizer.
void* NotifiedYet(const Notification* notification) {
  auto address = reinterpret_cast<uintptr_t>(notification);
  return reinterpret_cast<void*>(address + sizeof(Mutex));
}

}  // namespace

// Declares the real function and its wrapper, and opens the wrapper's body.
#define FARLOOK_WRAP(result, name, symbol, ...)             \
  result Real##name(__VA_ARGS__) __asm__("__real_" symbol); \
  result Wrap##name(__VA_ARGS__) __asm__("__wrap_" symbol); \
  result Wrap##name(__VA_ARGS__)

FARLOOK_WRAP(void, DestroyMutex, "_ZN4absl7debian35MutexD1Ev", Mutex* mutex) {
  __tsan_mutex_destroy(mutex, __tsan_mutex_not_static);
  RealDestroyMutex(mutex);
}

FARLOOK_WRAP(void, Lock, "_ZN4absl7debian35Mutex4LockEv", Mutex* mutex) {
  AcquireAround(mutex, kWriter, [&] { RealLock(mutex); });
}

FARLOOK_WRAP(void, Unlock, "_ZN4absl7debian35Mutex6UnlockEv", Mutex* mutex) {
  ReleaseAround(mutex, kWriter, [&] { RealUnlock(mutex); });
}

FARLOOK_WRAP(bool, TryLock, "_ZN4absl7debian35Mutex7TryLockEv", Mutex* mutex) {
  return TryAcquireAround(mutex, kWriter, [&] { return RealTryLock(mutex); });
}

FARLOOK_WRAP(void, LockWhen, "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE", Mutex* mutex,
             const Condition& condition) {
  AcquireAround(mutex, kWriter, [&] { RealLockWhen(mutex, condition); });
}

FARLOOK_WRAP(bool, LockWhenWithTimeout,
             "_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_"
             "8DurationE",
             Mutex* mutex, const Condition& condition, Duration timeout) {
  return AcquireAround(mutex, kWriter, [&] { return RealLockWhenWithTimeout(mutex, condition, timeout); });
}

FARLOOK_WRAP(bool, LockWhenWithDeadline, "_ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE",
             Mutex* mutex, const Condition& condition, Time deadline) {
  return AcquireAround(mutex, kWriter, [&] { return RealLockWhenWithDeadline(mutex, condition, deadline); });
}

FARLOOK_WRAP(void, ReaderLock, "_ZN4absl7debian35Mutex10ReaderLockEv", Mutex* mutex) {
  AcquireAround(mutex, kReader, [&] { RealReaderLock(mutex); });
}

FARLOOK_WRAP(void, ReaderUnlock, "_ZN4absl7debian35Mutex12ReaderUnlockEv", Mutex* mutex) {
  ReleaseAround(mutex, kReader, [&] { RealReaderUnlock(mutex); });
}

FARLOOK_WRAP(bool, ReaderTryLock, "_ZN4absl7debian35Mutex13ReaderTryLockEv", Mutex* mutex) {
  return TryAcquireAround(mutex, kReader, [&] { return RealReaderTryLock(mutex); });
}

FARLOOK_WRAP(void, ReaderLockWhen, "_ZN4absl7debian35Mutex14ReaderLockWhenERKNS0_9ConditionE", Mutex* mutex,
             const Condition& condition) {
  AcquireAround(mutex, kReader, [&] { RealReaderLockWhen(mutex, condition); });
}

FARLOOK_WRAP(bool, ReaderLockWhenWithTimeout,
             "_ZN4absl7debian35Mutex25ReaderLockWhenWithTimeoutERKNS0_"
             "9ConditionENS0_8DurationE",
             Mutex* mutex, const Condition& condition, Duration timeout) {
  return AcquireAround(mutex, kReader, [&] { return RealReaderLockWhenWithTimeout(mutex, condition, timeout); });
}

FARLOOK_WRAP(bool, ReaderLockWhenWithDeadline,
             "_ZN4absl7debian35Mutex26ReaderLockWhenWithDeadlineERKNS0_"
             "9ConditionENS0_4TimeE",
             Mutex* mutex, const Condition& condition, Time deadline) {
  return AcquireAround(mutex, kReader, [&] { return RealReaderLockWhenWithDeadline(mutex, condition, deadline); });
}

FARLOOK_WRAP(void, Await, "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE", Mutex* mutex, const Condition& condition) {
  WaitAround(mutex, [&] { RealAwait(mutex, condition); });
}

FARLOOK_WRAP(bool, AwaitWithTimeout, "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
             Mutex* mutex, const Condition& condition, Duration timeout) {
  return WaitAround(mutex, [&] { return RealAwaitWithTimeout(mutex, condition, timeout); });
}

FARLOOK_WRAP(bool, AwaitWithDeadline, "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
             Mutex* mutex, const Condition& condition, Time deadline) {
  return WaitAround(mutex, [&] { return RealAwaitWithDeadline(mutex, condition, deadline); });
}

FARLOOK_WRAP(void, Wait, "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", CondVar* changed, Mutex* mutex) {
  WaitAround(mutex, [&] { RealWait(changed, mutex); });
}

FARLOOK_WRAP(bool, WaitWithTimeout, "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
             CondVar* changed, Mutex* mutex, Duration timeout) {
  return WaitAround(mutex, [&] { return RealWaitWithTimeout(changed, mutex, timeout); });
}

FARLOOK_WRAP(bool, WaitWithDeadline, "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
             CondVar* changed, Mutex* mutex, Time deadline) {
  return WaitAround(mutex, [&] { return RealWaitWithDeadline(changed, mutex, deadline); });
}

// Notification and BlockingCounter use the wrapped Mutex, but for a first look
// at an atomic of theirs, which the sanitizer does not see.

FARLOOK_WRAP(void, Notify, "_ZN4absl7debian312Notification6NotifyEv", Notification* notification) {
  __tsan_release(NotifiedYet(notification));
  RealNotify(notification);
}

FARLOOK_WRAP(void, WaitForNotification, "_ZNK4absl7debian312Notification19WaitForNotificationEv",
             const Notification* notification) {
  RealWaitForNotification(notification);
  __tsan_acquire(NotifiedYet(notification));
}

FARLOOK_WRAP(bool, WaitForNotificationWithTimeout,
             "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutEN"
             "S0_8DurationE",
             const Notification* notification, Duration timeout) {
  const bool notified = RealWaitForNotificationWithTimeout(notification, timeout);
  if (notified) __tsan_acquire(NotifiedYet(notification));
  return notified;
}

FARLOOK_WRAP(bool, WaitForNotificationWithDeadline,
             "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineE"
             "NS0_4TimeE",
             const Notification* notification, Time deadline) {
  const bool notified = RealWaitForNotificationWithDeadline(notification, deadline);
  if (notified) __tsan_acquire(NotifiedYet(notification));
  return notified;
}

FARLOOK_WRAP(bool, DecrementCount, "_ZN4absl7debian315BlockingCounter14DecrementCountEv", BlockingCounter* counter) {
  __tsan_release(counter);
  return RealDecrementCount(counter);
}

FARLOOK_WRAP(void, WaitForCounter, "_ZN4absl7debian315BlockingCounter4WaitEv", BlockingCounter* counter) {
  RealWaitForCounter(counter);
  __tsan_acquire(counter);
}
