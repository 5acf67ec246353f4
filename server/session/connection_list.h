// The connections of all workers, in order of arrival, for operators (`kv_cli clients`, `kv_cli kick`).
//
// A connection's worker updates its figures without a lock; a listing reads their current values. The lock is held to
// enter, to leave and to list one page, so a listing never sees a destroyed connection.
//
// Thread safety: any thread, except as Entry says.
#ifndef FARLOOK_SERVER_SESSION_CONNECTION_LIST_H_
#define FARLOOK_SERVER_SESSION_CONNECTION_LIST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/base/worker_stats.h"
#include "server/session/connection_quota.h"

namespace farlook::server {

class ConnectionList {
 public:
  enum class State : uint8_t {
    kUnproven,  // its client has not introduced itself, or not proved its identity
    kWelcome,
    kBackup,  // follows a group's primary
    kPaused,  // not read from until the client takes the replies that are kept for it
    kClosing,
    kAtomic,  // closed, but kept with its place: its client was stopped within an atomic
    kKicked,  // like kAtomic, but its place was given to others
  };
  // Result of KickOut().
  enum class Kick : uint8_t {
    kAbsent,   // no connection has this id
    kGone,     // kicked before and gone; known for the last kMostRemembered
    kEnding,   // its worker closes it when it next reads kicks()
    kVacated,  // was kAtomic; its place is given to others
    kRefused,  // is kAtomic, and ConnectionQuota::max() connections have vacated their places already
  };

  // One connection, from creation to destruction. Thread safety: its worker's thread, except what the list reads.
  class Entry {
   public:
    // `list` may be null: then the connection is not listed.
    Entry(ConnectionList* list, std::string peer, int worker, int64_t now_ns);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // The client was admitted. `role`: its rights.
    void Welcome(absl::string_view user, absl::string_view role);
    // The connection is closed but kept, because its client may be within an atomic. If it was kicked before, its place
    // is given to others where the quota allows that.
    void StayWithinAtomic();
    // Removes it from the list. Returns false if it has no place. May be called again.
    bool Leave();
    void Set(State state) { state_.store(state, std::memory_order_relaxed); }
    // Returns whether an operator asked to close it.
    bool kicked() const { return kicked_.load(std::memory_order_relaxed); }

    Counter requests;                // number that arrived
    Counter kept_bytes;              // Link::kept_bytes()
    Counter gets_per_s, get_p99_ns;  // as last reported by the client; 0: no report

   private:
    friend class ConnectionList;

    ConnectionList* const list_;
    const std::string peer_;
    const int worker_;
    const int64_t since_ns_;
    uint64_t id_ = 0;
    // Guarded by the list's lock.
    std::string user_;
    std::string role_;
    std::atomic<State> state_{State::kUnproven};  // kAtomic and kKicked are set under the lock
    std::atomic<bool> kicked_{false};
  };

  static constexpr size_t kMostRemembered = 1024;

  // `quota`: the quota that clients of state kAtomic occupy.
  explicit ConnectionList(ConnectionQuota* quota) : quota_(quota) {}

  // Returns one line for each connection with an id above `after`, as many as fit in `most` bytes. *left is how many
  // more follow. Fields, separated by tabs:
  //     id, peer, user (or -), role, worker, state, age in seconds, requests, kept bytes, gets per second and their p99 in
  //     nanoseconds, both as last reported by the client
  std::string List(uint64_t after, size_t most, int64_t now_ns, uint64_t* left) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Asks for one connection to be closed. May be repeated, for example if the answer was lost.
  Kick KickOut(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Incremented by each kEnding. One load.
  uint64_t kicks() const { return kicks_.load(std::memory_order_acquire); }

 private:
  void Remember(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ConnectionQuota* const quota_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, Entry*> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);  // ids of connections that were kicked and have left
  std::atomic<uint64_t> kicks_{0};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_CONNECTION_LIST_H_
