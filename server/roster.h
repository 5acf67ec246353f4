// Who is connected, for operators (`kv_cli clients`, `kv_cli kick`): the connections of all workers, in the order in
// which they came.
//
// A connection's worker writes its figures as it goes, without a lock; whoever lists them reads them as they are. The
// lock is held to enter, to leave and to list one page, so that a list never meets a connection that is gone.
//
// Thread safety: any thread, but for what Entry says.
#ifndef FARLOOK_SERVER_ROSTER_H_
#define FARLOOK_SERVER_ROSTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/places.h"
#include "server/worker_stats.h"

namespace farlook::server {

class Roster {
 public:
  enum class State : uint8_t {
    kUnproven,  // it has not said, or not proved, who it is
    kWelcome,
    kBackup,  // it follows a group's primary
    kDeaf,    // it is not listened to until it takes what is kept for it
    kClosing,
    kAtomic,  // its connection is over, but is kept, with its place, as its client was stopped within an atomic
    kKicked,  // that, but the place is given to others
  };
  // What came of KickOut().
  enum class Kick : uint8_t {
    kAbsent,   // there is none of this id
    kGone,     // it was kicked before, and has left: known of the last kMostRemembered
    kEnding,   // its worker closes it when it looks at kicks()
    kVacated,  // it was kAtomic; its place is given to others
    kRefused,  // it is kAtomic, and of Places::max() others so much is so already
  };

  // A connection, from its making to its end. Thread safety: its worker's thread, but for what the roster reads.
  class Entry {
   public:
    // `roster` may be null: then nobody asks.
    Entry(Roster* roster, std::string peer, int worker, int64_t now_ns);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // It was let in. `role`: what it may do.
    void Welcome(absl::string_view user, absl::string_view role);
    // Its connection is over, and is kept, since its client may be within an atomic. Who was kicked before has no place
    // from now on, if that may be.
    void StayWithinAtomic();
    // It is not listed any more. False: it has no place. May be called again.
    bool Leave();
    void Set(State state) { state_.store(state, std::memory_order_relaxed); }
    // Whether an operator wants it gone.
    bool kicked() const { return kicked_.load(std::memory_order_relaxed); }

    Counter requests;                // that arrived
    Counter kept_bytes;              // Link::kept_bytes()
    Counter gets_per_s, get_p99_ns;  // as it told last; 0: nothing

   private:
    friend class Roster;

    Roster* const roster_;
    const std::string peer_;
    const int worker_;
    const int64_t since_ns_;
    uint64_t id_ = 0;
    // Under the roster's lock.
    std::string user_;
    std::string role_;
    std::atomic<State> state_{State::kUnproven};  // kAtomic and kKicked are set under it
    std::atomic<bool> kicked_{false};
  };

  static constexpr size_t kMostRemembered = 1024;

  // `places`: that clients of state kAtomic have.
  explicit Roster(Places* places) : places_(places) {}

  // One line for each of those whose id is above `after`, as many as `most` bytes hold; *left is how many follow.
  //     id, peer, user (or -), role, worker, state, seconds since it came, requests, kept bytes, gets a second and their
  //     p99 in nanoseconds as it told last: separated by tabs
  std::string List(uint64_t after, size_t most, int64_t now_ns, uint64_t* left) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Wants one gone. Who lost the answer may ask again.
  Kick KickOut(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Grows with each kEnding. One load.
  uint64_t kicks() const { return kicks_.load(std::memory_order_acquire); }

 private:
  void Remember(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Places* const places_;
  mutable absl::Mutex mutex_;
  std::map<uint64_t, Entry*> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);  // the ids of those who were kicked and have left
  std::atomic<uint64_t> kicks_{0};
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_ROSTER_H_
