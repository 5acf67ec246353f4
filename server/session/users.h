// The users of --users: their names, how each proves its identity, and its rights.
#ifndef FARLOOK_SERVER_SESSION_USERS_H_
#define FARLOOK_SERVER_SESSION_USERS_H_

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

// Every user may read.
struct User {
  std::string name;
  bool may_write = false;      // the role write
  bool admin = false;          // the role admin
  std::string secret;          // empty: it has none, and connects from this host only
  std::vector<uint32_t> uids;  // of this host's processes that are this user
  std::vector<uint32_t> gids;  // processes with one of these groups are this user too
  bool operator==(const User&) const = default;
};

// The users as read from the file at one time. Thread safety: immutable.
class UserList {
 public:
  explicit UserList(std::vector<User> users) : users_(std::move(users)) {}

  // Returns null if there is none.
  const User* Named(absl::string_view name) const;
  // Returns the first user, in the order of the file, that matches the process. A match of its uid precedes a match of
  // a group.
  const User* Of(const rdma::PeerCredentials& process) const;

  const std::vector<User>& all() const { return users_; }

 private:
  const std::vector<User> users_;
};

// The users in force. Thread safety: any thread.
class Users {
 public:
  explicit Users(std::shared_ptr<const UserList> list) : list_(std::move(list)) {}

  std::shared_ptr<const UserList> now() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return list_;
  }
  // A thread that sees the new generation finds the new list, because the list is read under the same lock.
  void Replace(std::shared_ptr<const UserList> list) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    list_ = std::move(list);
    generation_.fetch_add(1, std::memory_order_relaxed);
  }
  // Incremented by each Replace(). One load.
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const UserList> list_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> generation_{0};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_USERS_H_
