// Shutdown of a worker: a state machine that is given what is left and decides what is still allowed.
//
//     serving -> finishing: no new clients; requests are executed              until the worker is idle, or 50 ms
//             -> refusing: writes that arrive are answered kShuttingDown       20 ms, so that replies reach their clients
//             -> disconnecting: connections are closed
#ifndef FARLOOK_SERVER_SESSION_DRAIN_H_
#define FARLOOK_SERVER_SESSION_DRAIN_H_

#include <cstdint>

namespace farlook::server {

// Thread safety: none; belongs to its worker.
class Drain {
 public:
  // For kFinishNs, a server that shuts down goes on executing requests; then, for kLingerNs, it lets replies reach
  // clients.
  static constexpr int64_t kFinishNs = 50'000'000;
  static constexpr int64_t kLingerNs = 20'000'000;
  // Longest interval between calls of Advance() after Begin().
  static constexpr int64_t kPollNs = 1'000'000;

  // Begins the drain. Disconnecting begins at `deadline_ns` at the latest. Does nothing if it has begun.
  void Begin(int64_t now_ns, int64_t deadline_ns);

  // Work that is left.
  struct State {
    bool idle;        // nothing arrived since the last call
    bool clients;     // connections exist
    bool unfinished;  // replies or pulls are under way
  };
  // Returns whether the phase changed.
  bool Advance(int64_t now_ns, State state);

  bool begun() const { return phase_ != Phase::kServing; }
  bool refuses_writes() const { return phase_ >= Phase::kRefusing; }
  bool disconnects() const { return phase_ == Phase::kDisconnecting; }

 private:
  enum class Phase : uint8_t { kServing, kFinishing, kRefusing, kDisconnecting };

  Phase phase_ = Phase::kServing;
  int64_t deadline_ns_ = 0;
  int64_t phase_end_ns_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_SESSION_DRAIN_H_
