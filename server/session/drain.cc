#include "server/session/drain.h"

#include <algorithm>

namespace farlook::server {

void Drain::Begin(int64_t now_ns, int64_t deadline_ns) {
  if (begun()) return;
  phase_ = Phase::kFinishing;
  deadline_ns_ = deadline_ns;
  phase_end_ns_ = std::min(deadline_ns, now_ns + kFinishNs);
}

bool Drain::Advance(int64_t now_ns, State state) {
  const Phase before = phase_;
  if (phase_ == Phase::kFinishing && (state.idle || now_ns >= phase_end_ns_)) {
    phase_ = Phase::kRefusing;
    phase_end_ns_ = now_ns + kLingerNs;
  }
  if (phase_ == Phase::kRefusing) {
    const bool finished = !state.unfinished && now_ns >= phase_end_ns_;
    if (!state.clients || finished || now_ns >= deadline_ns_) phase_ = Phase::kDisconnecting;
  }
  return phase_ != before;
}

}  // namespace farlook::server
