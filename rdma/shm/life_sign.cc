#include "rdma/shm/life_sign.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kStackBytes = 256 * 1024;  // more than the thread needs, for sanitizers

enum Stage : int { kStarting, kOwned, kRefused, kLeaving };

}  // namespace

LifeSign::LifeSign(UniqueFd fd, Mapping mapping)
    : fd_(std::move(fd)),
      mapping_(std::move(mapping)),
      page_(static_cast<LifePage*>(static_cast<void*>(mapping_.data()))) {}

absl::StatusOr<std::unique_ptr<LifeSign>> LifeSign::Create() {
  absl::StatusOr<UniqueFd> fd = CreateSealable("farlook-life", kPageBytes);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<Mapping> mapping = Map(fd->get(), kPageBytes, /*writable=*/true);
  if (!mapping.ok()) return mapping.status();
  if (absl::Status status = Seal(fd->get(), Sealing::kReadOnly); !status.ok()) return status;
  std::unique_ptr<LifeSign> sign(new LifeSign(*std::move(fd), *std::move(mapping)));

  if (absl::Status status = sign->Start(); !status.ok()) return status;
  return sign;
}

absl::Status LifeSign::Start() {
  // The thread must never handle a signal of the process.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&owner_, &attributes, &LifeSign::Run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", strerror(error)));
  started_ = true;
  stage_.wait(kStarting, std::memory_order_acquire);
  if (stage_.load(std::memory_order_acquire) == kRefused) {
    return absl::UnimplementedError("the kernel refuses robust futexes (set_robust_list)");
  }
  return absl::OkStatus();
}

LifeSign::~LifeSign() {
  if (!started_) return;
  stage_.store(kLeaving, std::memory_order_release);
  stage_.notify_all();
  pthread_join(owner_, nullptr);
}

void* LifeSign::Run(void* self) {
  static_cast<LifeSign*>(self)->Own();
  return nullptr;
}

void LifeSign::Own() {
  // The list that the kernel walks when this thread ends: one entry, whose word is at `futex_offset` from it. It
  // replaces the thread's list of robust mutexes, of which the thread takes none.
  robust_list entry;
  robust_list_head head;
  head.list.next = &entry;
  entry.next = &head.list;
  head.futex_offset = static_cast<char*>(static_cast<void*>(page_)) - static_cast<char*>(static_cast<void*>(&entry));
  head.list_op_pending = nullptr;
  if (syscall(SYS_set_robust_list, &head, sizeof(head)) != 0) {
    stage_.store(kRefused, std::memory_order_release);
    stage_.notify_all();
    return;
  }
  page_->owner.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
  stage_.store(kOwned, std::memory_order_release);
  stage_.notify_all();
  while (stage_.load(std::memory_order_acquire) != kLeaving) stage_.wait(kOwned, std::memory_order_acquire);
  // Pairs with the acquire in LifeView::alive.
  page_->owner.store(0, std::memory_order_release);
  // `head` is about to leave the stack.
  syscall(SYS_set_robust_list, nullptr, sizeof(head));
}

LifeView::LifeView(Mapping mapping)
    : mapping_(std::move(mapping)), page_(static_cast<const LifePage*>(static_cast<const void*>(mapping_.data()))) {}

absl::StatusOr<LifeView> LifeView::Open(int fd) {
  if (absl::Status status = CheckSealed(fd, Sealing::kReadOnly, kPageBytes); !status.ok()) return status;
  absl::StatusOr<Mapping> mapping = Map(fd, kPageBytes, /*writable=*/false);
  if (!mapping.ok()) return mapping.status();
  return LifeView(*std::move(mapping));
}

bool LifeView::died() const { return (page_->owner.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0; }

}  // namespace farlook::rdma::shm
