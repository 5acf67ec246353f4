// Whether a member of a group serves clients, and where others are told to go. Looked at for each connection.
//
// Thread safety: any thread.
#ifndef FARLOOK_SERVER_SERVING_H_
#define FARLOOK_SERVER_SERVING_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook::server {

class Serving {
 public:
  bool now() const {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  // Of the primary; empty: none is known.
  std::string primary() const {
    absl::MutexLock lock(&mutex_);
    return primary_;
  }
  // Of all members, separated by commas.
  std::string members() const {
    absl::MutexLock lock(&mutex_);
    return members_;
  }

  void Set(bool now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }
  void SetMembers(std::string primary, std::string members) {
    absl::MutexLock lock(&mutex_);
    primary_ = std::move(primary);
    members_ = std::move(members);
  }

 private:
  mutable absl::Mutex mutex_;
  bool now_ ABSL_GUARDED_BY(mutex_) = false;
  std::string primary_ ABSL_GUARDED_BY(mutex_);
  std::string members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SERVING_H_
