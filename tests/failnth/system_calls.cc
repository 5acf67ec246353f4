// The system calls of the product, each with the errors that it may return if the product calls it correctly. Some are
// omitted, as they do not fail in this way: close and munmap (the caller could do nothing), clock and process queries,
// unlink and shutdown (of something that ends anyway). Also timerfd_settime, which fails only with wrong arguments, and
// eventfd's own write, which fails only if the counter is full, and so readable.
#include <fcntl.h>
#include <numaif.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <memory>
#include <system_error>
#include <thread>

#include "tests/failnth/calls.h"

namespace {

std::atomic<int64_t> mapped_bytes{0};

using farlook::failnth::Fails;
using farlook::failnth::Kind;

}  // namespace

int64_t farlook::failnth::MappedBytes() { return mapped_bytes.load(std::memory_order_relaxed); }

// A call that returns `failed` and sets errno.
#define FAILABLE(result, failed, name, parameters, arguments, ...)                            \
  extern "C" result __real_##name parameters;                                                 \
  extern "C" result __wrap_##name parameters;                                                 \
  result __wrap_##name parameters {                                                           \
    static constexpr int kErrors[] = {__VA_ARGS__};                                           \
    if (Fails(Kind::kSystemCall, #name, __builtin_return_address(0), kErrors)) return failed; \
    return __real_##name arguments;                                                           \
  }

FAILABLE(int, -1, open, (const char* path, int flags, mode_t mode), (path, flags, mode), EMFILE, EACCES, ENOSPC)
FAILABLE(int, -1, fcntl, (int fd, int command, long argument), (fd, command, argument), EBUSY)
FAILABLE(int, -1, flock, (int fd, int operation), (fd, operation), ENOLCK)
FAILABLE(int, -1, fstat, (int fd, struct stat* to), (fd, to), ENOMEM)
FAILABLE(int, -1, stat, (const char* path, struct stat* to), (path, to), ENOMEM)
FAILABLE(int, -1, lstat, (const char* path, struct stat* to), (path, to), ENOMEM, EACCES)
FAILABLE(int, -1, fstatfs, (int fd, struct statfs* to), (fd, to), ENOMEM)
FAILABLE(int, -1, ftruncate, (int fd, off_t bytes), (fd, bytes), ENOSPC)
FAILABLE(ssize_t, -1, pread, (int fd, void* to, size_t bytes, off_t at), (fd, to, bytes, at), EIO)
FAILABLE(ssize_t, -1, pwrite, (int fd, const void* from, size_t bytes, off_t at), (fd, from, bytes, at), ENOSPC)
FAILABLE(int, -1, memfd_create, (const char* name, unsigned flags), (name, flags), EMFILE, ENOMEM)
FAILABLE(int, -1, madvise, (void* at, size_t bytes, int advice), (at, bytes, advice), ENOMEM, EAGAIN, EINTR)
FAILABLE(long, -1, mbind,
         (void* at, unsigned long bytes, int mode, const unsigned long* nodes, unsigned long most, unsigned flags),
         (at, bytes, mode, nodes, most, flags), ENOMEM, EPERM)

FAILABLE(int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, ENOBUFS)
FAILABLE(int, -1, bind, (int fd, const sockaddr* address, socklen_t bytes), (fd, address, bytes), ENOSPC, EADDRINUSE)
FAILABLE(int, -1, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE)
FAILABLE(int, -1, accept4, (int fd, sockaddr* from, socklen_t* bytes, int flags), (fd, from, bytes, flags), EMFILE,
         ENFILE, ENOMEM, EINTR, ECONNABORTED, EAGAIN)
FAILABLE(int, -1, connect, (int fd, const sockaddr* address, socklen_t bytes), (fd, address, bytes), EAGAIN, EINTR,
         ECONNREFUSED, ENOENT)
FAILABLE(ssize_t, -1, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags), ENOBUFS, EINTR, EPIPE,
         ENOMEM, ETOOMANYREFS)
FAILABLE(ssize_t, -1, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags), ENOMEM, EINTR, ECONNRESET)
FAILABLE(int, -1, getsockopt, (int fd, int level, int name, void* to, socklen_t* bytes), (fd, level, name, to, bytes),
         ENOBUFS)

FAILABLE(int, -1, epoll_create1, (int flags), (flags), EMFILE, ENOMEM)
FAILABLE(int, -1, epoll_wait, (int fd, epoll_event* to, int most, int timeout), (fd, to, most, timeout), EINTR)
FAILABLE(int, -1, timerfd_create, (int clock, int flags), (clock, flags), EMFILE, ENOMEM)
FAILABLE(int, -1, eventfd, (unsigned value, int flags), (value, flags), EMFILE, ENOMEM)
FAILABLE(ssize_t, -1, read, (int fd, void* to, size_t bytes), (fd, to, bytes), EINTR)
FAILABLE(ssize_t, -1, write, (int fd, const void* from, size_t bytes), (fd, from, bytes), EINTR)
FAILABLE(int, -1, poll, (pollfd * fds, nfds_t count, int timeout), (fds, count, timeout), EINTR, ENOMEM)
FAILABLE(int, -1, ppoll, (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* signals),
         (fds, count, timeout, signals), EINTR, ENOMEM)
FAILABLE(ssize_t, -1, getrandom, (void* to, size_t bytes, unsigned flags), (to, bytes, flags), EINTR)

// Taking away is always possible.
extern "C" int __real_epoll_ctl(int fd, int operation, int of, epoll_event* event);
extern "C" int __wrap_epoll_ctl(int fd, int operation, int of, epoll_event* event);
int __wrap_epoll_ctl(int fd, int operation, int of, epoll_event* event) {
  static constexpr int kErrors[] = {ENOMEM, ENOSPC};
  if (operation == EPOLL_CTL_ADD && Fails(Kind::kSystemCall, "epoll_ctl", __builtin_return_address(0), kErrors)) {
    return -1;
  }
  return __real_epoll_ctl(fd, operation, of, event);
}

extern "C" int __real_pthread_create(pthread_t* to, const pthread_attr_t* attributes, void* (*run)(void*), void* with);
extern "C" int __wrap_pthread_create(pthread_t* to, const pthread_attr_t* attributes, void* (*run)(void*), void* with);
int __wrap_pthread_create(pthread_t* to, const pthread_attr_t* attributes, void* (*run)(void*), void* with) {
  static constexpr int kErrors[] = {EAGAIN};
  if (Fails(Kind::kSystemCall, "pthread_create", __builtin_return_address(0), kErrors)) return EAGAIN;
  return __real_pthread_create(to, attributes, run, with);
}

// std::thread calls pthread_create from within libstdc++, where the linker does not reach.
extern "C" void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread*, std::unique_ptr<std::thread::_State>, void (*)());
extern "C" void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread*, std::unique_ptr<std::thread::_State>, void (*)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> state, void (*depend)()) {
  static constexpr int kErrors[] = {EAGAIN};
  if (Fails(Kind::kSystemCall, "std::thread", __builtin_return_address(0), kErrors)) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(self, std::move(state),
                                                                                               depend);
}

extern "C" void* __real_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset);
extern "C" void* __wrap_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static constexpr int kErrors[] = {ENOMEM};
  if (Fails(Kind::kSystemCall, "mmap", __builtin_return_address(0), kErrors)) return MAP_FAILED;
  void* const mapped = __real_mmap(at, bytes, protection, flags, fd, offset);
  if (mapped != MAP_FAILED && (flags & MAP_FIXED) == 0) {
    mapped_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  return mapped;
}

extern "C" int __real_munmap(void* at, size_t bytes);
extern "C" int __wrap_munmap(void* at, size_t bytes);
int __wrap_munmap(void* at, size_t bytes) {
  const int result = __real_munmap(at, bytes);
  if (result == 0) mapped_bytes.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return result;
}
