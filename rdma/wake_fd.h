// An eventfd: one thread wakes another that polls it.
#ifndef FARLOOK_RDMA_WAKE_FD_H_
#define FARLOOK_RDMA_WAKE_FD_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace farlook::rdma {

// Thread safety: any thread may call Wake().
class WakeFd {
 public:
  WakeFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~WakeFd() { Close(); }
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;

  // Returns false if there was no descriptor left.
  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  void Close() {
    if (ok()) close(fd_);
    fd_ = -1;
  }

  // Makes fd() readable, until Clear().
  void Wake() {
    const uint64_t one = 1;
    while (write(fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  void Clear() {
    uint64_t count;
    [[maybe_unused]] const ssize_t bytes = read(fd_, &count, sizeof count);
  }

 private:
  int fd_;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_WAKE_FD_H_
