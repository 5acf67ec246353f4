// Misuse of the client that would corrupt memory. It is detected where that is cheap, and ends the process with a
// message.
#ifndef FARLOOK_CLIENT_API_MISUSE_H_
#define FARLOOK_CLIENT_API_MISUSE_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "client/op/forks.h"

namespace farlook::client {

[[noreturn]] void EndForMisuse(const char* what);

// Number of a client. An operation finds out by it whether the client that it was started with still exists.
class LiveClient {
 public:
  LiveClient();
  ~LiveClient();
  LiveClient(const LiveClient&) = delete;
  LiveClient& operator=(const LiveClient&) = delete;

  uint64_t number() const { return number_; }
  // Returns false for the parent's clients in a child of fork(). Takes a lock.
  static bool Lives(uint64_t number);

 private:
  const ForkMark fork_mark_;
  const uint64_t number_;  // never 0
};

// Detects two threads within one client at the same time. It may miss them, and costs some ten instructions for each
// call.
class OneThread {
 public:
  // A call, from its beginning to its end. Calls of one thread may nest.
  class Call {
   public:
    explicit Call(OneThread* client) : inside_(&client->inside_), outer_(inside_->load(std::memory_order_relaxed)) {
      const auto me = static_cast<uint64_t>(pthread_self());
      if (outer_ != 0 && outer_ != me) [[unlikely]]
        EndForMisuse("two threads use one client at the same time; each needs a client of its own, or a lock");
      inside_->store(me, std::memory_order_relaxed);
    }
    ~Call() { inside_->store(outer_, std::memory_order_relaxed); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<uint64_t>* const inside_;
    const uint64_t outer_;
  };
  // A time within a call in which other threads may use the client: ClientOptions::while_waiting lets them take turns.
  class Pause {
   public:
    explicit Pause(OneThread* client) : inside_(&client->inside_), me_(inside_->load(std::memory_order_relaxed)) {
      inside_->store(0, std::memory_order_relaxed);
    }
    ~Pause() { inside_->store(me_, std::memory_order_relaxed); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::atomic<uint64_t>* const inside_;
    const uint64_t me_;
  };

  // The same in debug builds only, for calls that take less than a microsecond.
  class DebugCall {
   public:
#ifdef NDEBUG
    explicit DebugCall(OneThread* /*client*/) {}
#else
    explicit DebugCall(OneThread* client) : call_(client) {}

   private:
    const Call call_;
#endif
  };

  // Returns whether another thread was within a call; in a child of fork(): at the time of the fork.
  bool other_inside() const {
    const uint64_t inside = inside_.load(std::memory_order_relaxed);
    return inside != 0 && inside != static_cast<uint64_t>(pthread_self());
  }

 private:
  std::atomic<uint64_t> inside_{0};  // the thread; 0: none
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_API_MISUSE_H_
