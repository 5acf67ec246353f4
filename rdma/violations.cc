#include "rdma/violations.h"

#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::rdma {
namespace {

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
ViolationObserver* current ABSL_GUARDED_BY(mutex) = nullptr;

}  // namespace

void SetViolationObserver(ViolationObserver observer) {
  absl::MutexLock lock(&mutex);
  delete current;
  current = observer == nullptr ? nullptr : new ViolationObserver(std::move(observer));
}

void NoteViolation(Violator who, absl::string_view peer, absl::string_view how) {
  absl::MutexLock lock(&mutex);
  if (current != nullptr) (*current)(who, peer, how);
}

}  // namespace farlook::rdma
