// What a worker does for a connection in turns: values to pull, and what its send queue did not take. See worker.cc.
#include <algorithm>

#include "server/worker.h"

namespace farlook::server {
namespace {

// Between looks at a connection whose send queue stays full: doubled from the first while nothing moves, to the second
// while the worker has other things to do, to the last when it sleeps. A transport may wake us earlier.
constexpr int64_t kMinRetryNs = 20'000;
constexpr int64_t kMaxLookPauseNs = 1'000'000;
constexpr int64_t kMaxRetryNs = 20'000'000;

}  // namespace

void Worker::WantPullTurn(Link& link) {
  if (link.pulling || link.closing) return;
  link.pulling = true;
  pull_turns_.push_back(&link);
}

// One turn of one connection, so that all who pull get as many bytes, and messages are looked at in between.
size_t Worker::TakePullTurn() {
  LookAtClock();
  Link& link = *pull_turns_.front();
  pull_turns_.pop_front();
  link.pulling = false;
  const bool others = now_ns_ - others_ns_ < kOthersNs;
  const bool progress = link.pulls->Step(others ? PullQueue::kShortTurnBytes : PullQueue::kTurnBytes);
  stats_.lock_times.Sample();  // a turn may publish
  if (progress) {
    link.look_pause_ns = 0;
    WantRing(link);
    AnswerEndedPulls(link);  // puts it at the end, if it wants another
    if (others && turn_bytes_ > stats_.longest_shared_turn_bytes.value()) {
      stats_.longest_shared_turn_bytes.Set(turn_bytes_);
    }
    Balance(link);
  } else if (link.pulls->wants_turn()) {
    MarkStuck(link);  // it has its next turn when there may be room
  }
  RingAll();
  return progress || !pull_turns_.empty() ? 1 : 0;
}

void Worker::MarkStuck(Link& link) {
  if (link.stuck || link.closing) return;
  link.stuck = true;
  link.look_pause_ns = std::max(link.look_pause_ns, kMinRetryNs);
  link.look_ns = now_ns_ + link.look_pause_ns;
  stuck_.push_back(&link);
}

// Looks at some of them, each in its turn.
size_t Worker::ContinueStuck() {
  LookAtClock();
  size_t progress = 0;
  for (size_t looks = std::min(stuck_.size(), kLooks); looks > 0 && !stuck_.empty(); --looks) {
    if (next_look_ >= stuck_.size()) next_look_ = 0;
    Link& link = *stuck_[next_look_];
    if (looks_due_ > 0) {
      --looks_due_;
    } else if (now_ns_ < link.look_ns) {
      ++next_look_;
      continue;
    }
    if (Look(link)) ++progress;
    if (link.replies.empty()) {
      link.stuck = false;
      stuck_[next_look_] = stuck_.back();
      stuck_.pop_back();
    } else {
      ++next_look_;
    }
  }
  RingAll();
  retry_ns_ = progress > 0 ? kMinRetryNs : std::clamp(2 * retry_ns_, kMinRetryNs, kMaxRetryNs);
  if (!stuck_.empty()) due_ns_ = std::min(due_ns_, now_ns_ + retry_ns_);
  if (stuck_.empty()) looks_due_ = 0;
  return progress;
}

// Returns whether anything moved.
bool Worker::Look(Link& link) {
  stats_.looks_at_stuck.Add();
  const bool moved = link.replies.Continue();
  link.look_pause_ns = moved ? kMinRetryNs : std::clamp(2 * link.look_pause_ns, kMinRetryNs, kMaxLookPauseNs);
  link.look_ns = now_ns_ + link.look_pause_ns;
  if (link.pulls != nullptr && link.pulls->wants_turn()) WantPullTurn(link);
  if (!moved) return false;
  WantRing(link);
  Balance(link);
  return true;
}

// Stops listening to a connection for which too much is kept, and listens again when half of it is gone.
void Worker::Balance(Link& link) {
  const size_t kept = link.kept_bytes();
  if (kept == link.counted_bytes) return;
  stats_.kept_bytes.Set(stats_.kept_bytes.value() + kept - link.counted_bytes);
  link.counted_bytes = kept;
  link.entry->kept_bytes.Set(kept);
  const size_t most = link.deaf ? shared_.max_kept_bytes / 2 : shared_.max_kept_bytes;
  const bool deaf = kept > most && !link.closing;
  if (deaf == link.deaf) return;
  link.deaf = deaf;
  link.connection->SetReceiving(!deaf);
  if (!link.closing) link.entry->Set(deaf ? Roster::State::kDeaf : Roster::State::kWelcome);
  if (deaf) stats_.deaf_times.Add();
  stats_.deaf_connections.Set(stats_.deaf_connections.value() + (deaf ? 1 : uint64_t{0} - 1));
}

// Whether replies or pulls are under way.
bool Worker::Unfinished() const {
  if (!committing_.empty()) return true;
  return std::any_of(links_.begin(), links_.end(), [](const auto& entry) {
    const Link& link = *entry.second;
    return !link.replies.empty() || (link.pulls != nullptr && !link.pulls->idle());
  });
}

}  // namespace farlook::server
