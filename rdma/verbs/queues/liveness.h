// Detects the loss of the other side.
//
// RDMA has no keepalive: the loss of a silent peer is noticed only when something is sent to it. So an endpoint ticks.
// On each connection that had no completion since the last tick, and waits for none, it posts a READ of an 8-byte word
// of the peer. No CPU of the peer takes part: a process that is busy, or stopped, answers as long as its memory does. A
// request under way for too long without any completion ends the connection. So does the device when its retries are
// used up.
//
// Ticks that were missed while this process was stopped count as one, so that waking up is no reason to give up peers.
//
//     liveness_ms    the peer responds and dies; the first tick after that is satisfied, the second posts a probe;
//     = 3 ticks      the device gives up after 0.5 s (limits.h), or the third sees no answer
#ifndef FARLOOK_RDMA_VERBS_QUEUES_LIVENESS_H_
#define FARLOOK_RDMA_VERBS_QUEUES_LIVENESS_H_

#include <algorithm>
#include <cstdint>

#include "rdma/durations.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {

// Returns the tick for a bound of `liveness_ms` (TransportOptions).
inline int64_t TickNs(int64_t liveness_ms) { return NsOfMs(std::max<int64_t>(liveness_ms, 30)) / 3; }

// State of one connection. Thread safety: none.
class Liveness {
 public:
  enum class Verdict : uint8_t { kFine, kProbe, kDead };

  // The peer's device completed something, or its message arrived.
  void OnReceived() { received_ = true; }

  // `waits`: requests are with the device.
  Verdict Tick(bool waits) {
    const bool received = received_;
    received_ = false;
    if (received) {
      silent_ticks_ = 0;
      return Verdict::kFine;
    }
    if (!waits) {
      silent_ticks_ = 1;  // the probe has until the next tick
      return Verdict::kProbe;
    }
    // The request may have been posted a moment ago: it has until the tick after the next.
    return ++silent_ticks_ >= 2 ? Verdict::kDead : Verdict::kFine;
  }

 private:
  bool received_ = true;
  uint32_t silent_ticks_ = 0;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_LIVENESS_H_
