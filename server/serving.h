// Whether a member of a group serves clients, and where others are told to go. Looked at for each connection.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_SERVING_H_
#define FARLOOK_SERVER_SERVING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::server {

class Serving {
 public:
  // What clients are told of the group: its configuration.
  struct Told {
    std::string primary;  // its address; empty: none is known
    std::string members;  // the addresses of all, the primary first, separated by commas
    uint64_t epoch = 0;   // 0: none is known
    uint32_t lease_us = 0;
    std::string loss = {};  // all members are gone: what to say of that; empty: it is not so
  };

  bool now() const {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  Told told() const {
    absl::MutexLock lock(&mutex_);
    return told_;
  }

  // Whether as many members are in sync as must be for a write to be acknowledged. Who asks after it saw what is
  // committed hears it of the members that committed it, or of later ones.
  bool takes_writes() const { return takes_writes_.load(std::memory_order_acquire); }
  void SetTakesWrites(bool takes) { takes_writes_.store(takes, std::memory_order_release); }

  void Set(bool now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }
  void Tell(Told told) {
    absl::MutexLock lock(&mutex_);
    told_ = std::move(told);
  }

 private:
  std::atomic<bool> takes_writes_{true};
  mutable absl::Mutex mutex_;
  bool now_ ABSL_GUARDED_BY(mutex_) = false;
  Told told_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVING_H_
