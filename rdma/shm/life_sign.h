// Lets a client check, with one load, whether the server's process lives.
//
// A client reads the server's memory through its own mapping, which still works after the server's death. So the kernel
// must leave a mark: the server owns a robust futex in a small page that clients map read-only. When the owning thread
// ends, for whatever reason, the kernel writes FUTEX_OWNER_DIED into the word before the process is gone. A process
// that is only stopped still owns it.
//
//     the word    meaning
//     tid         the server lives (its thread `tid` owns the word)
//     0           the server closed its listener in good order
//     OWNER_DIED  the server's process ended
#ifndef FARLOOK_RDMA_SHM_LIFE_SIGN_H_
#define FARLOOK_RDMA_SHM_LIFE_SIGN_H_

#include <linux/futex.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"

namespace farlook::rdma::shm {

struct LifePage {
  std::atomic<uint32_t> owner;
};
static_assert(sizeof(LifePage) == 4 && std::atomic<uint32_t>::is_always_lock_free, "the kernel writes the word");

// The server's end. Owns a thread that only sleeps: the mark belongs to a thread, and this one lives exactly as long as
// the listener. (The page with one of glibc's own robust mutexes would expose the thread's addresses to every client.)
class LifeSign {
 public:
  static absl::StatusOr<std::unique_ptr<LifeSign>> Create();
  LifeSign(const LifeSign&) = delete;
  LifeSign& operator=(const LifeSign&) = delete;
  ~LifeSign();

  int fd() const { return fd_.get(); }  // sealed kReadOnly

 private:
  LifeSign(UniqueFd fd, Mapping mapping);
  absl::Status Start();
  static void* Run(void* self);
  void Own();

  UniqueFd fd_;
  Mapping mapping_;
  LifePage* const page_;
  std::atomic<int> stage_{0};
  bool started_ = false;
  pthread_t owner_;
};

// A client's view of the page.
class LifeView {
 public:
  LifeView() = default;

  // INVALID_ARGUMENT if `fd` is not the sealed page that it should be.
  static absl::StatusOr<LifeView> Open(int fd);

  // REQUIRES: made by Open. An acquire: all writes of the server before its end are visible after this returned false.
  bool alive() const {
    const uint32_t owner = page_->owner.load(std::memory_order_acquire);
    return (owner & FUTEX_TID_MASK) != 0 && (owner & FUTEX_OWNER_DIED) == 0;
  }

  // Returns whether the server ended without closing the listener. REQUIRES that alive() returned false.
  bool died() const;

 private:
  explicit LifeView(Mapping mapping);

  Mapping mapping_;
  const LifePage* page_ = nullptr;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_LIFE_SIGN_H_
