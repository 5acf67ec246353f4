// The users of --users: who may come, how each proves who it is, and what each may do.
#ifndef FARLOOK_SERVER_USERS_H_
#define FARLOOK_SERVER_USERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "rdma/transport.h"

namespace farlook::server {

// Whoever is a user may read.
struct User {
  std::string name;
  bool may_write = false;      // the role write
  bool admin = false;          // the role admin
  std::string secret;          // empty: it has none, and comes from this host only
  std::vector<uint32_t> uids;  // of this host's processes that are this user
  std::vector<uint32_t> gids;  // or of whose groups one is among these
  bool operator==(const User&) const = default;
};

// As they were read at one time. Thread safety: immutable.
class UserList {
 public:
  explicit UserList(std::vector<User> users) : users_(std::move(users)) {}

  // Null: there is none.
  const User* Named(absl::string_view name) const;
  // The first, in the order of the file, that the process is; those that name its uid before those that name a group.
  const User* Of(const rdma::PeerCredentials& process) const;

  const std::vector<User>& all() const { return users_; }

 private:
  const std::vector<User> users_;
};

// Those in force. Thread safety: any thread.
class Users {
 public:
  explicit Users(std::shared_ptr<const UserList> list) : list_(std::move(list)) {}

  std::shared_ptr<const UserList> now() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return list_;
  }
  // Whoever sees the new generation finds the new list, which comes under the same lock.
  void Replace(std::shared_ptr<const UserList> list) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    list_ = std::move(list);
    generation_.fetch_add(1, std::memory_order_relaxed);
  }
  // Grows with each Replace(). One load.
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const UserList> list_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> generation_{0};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_USERS_H_
