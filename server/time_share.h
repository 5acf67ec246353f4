// A share of a worker's time, for work that others need not wait for: who comes and goes.
//
// What was done is noted with how long it took, and the next of its kind is due after a rest of kParts - 1 times as
// long, or kShortestRestNs: a request takes a microsecond, so of a hundred that come one after the other less than one
// meets such work. The worker keeps the rest only while others have requests.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_TIME_SHARE_H_
#define FARLOOK_SERVER_TIME_SHARE_H_

#include <algorithm>
#include <cstdint>

namespace farlook::server {

class TimeShare {
 public:
  // Of each so many parts of the time one is for this work.
  static constexpr int64_t kParts = 5;
  // What took longer was done by a process that stood still, and is not paid for again.
  static constexpr int64_t kLongestNs = 2'000'000;
  static constexpr int64_t kShortestRestNs = 200'000;
  // The longest rest: when many go at once, who comes next does not wait for longer.
  static constexpr int64_t kLongestRestNs = 200'000'000;

  void Took(int64_t start_ns, int64_t end_ns) {
    const int64_t took_ns = std::min(end_ns - start_ns, kLongestNs);
    // It may have been done within the rest of another: that was no rest then.
    if (took_ns <= 0) return;  // nothing was done, or by the clock of a test
    const int64_t rest_ns = std::max((kParts - 1) * took_ns, kShortestRestNs);
    due_ns_ = std::min(std::max(due_ns_ + took_ns, end_ns) + rest_ns, end_ns + kLongestRestNs);
  }
  int64_t due_ns() const { return due_ns_; }

 private:
  int64_t due_ns_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TIME_SHARE_H_
