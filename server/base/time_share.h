// Limits low-priority work, such as opening and closing connections, to a share of a worker's time.
//
// The duration of each piece of work is noted. The next of its kind is due after a rest of kParts - 1 times that
// duration, at least kShortestRestNs. A request takes a microsecond, so of a hundred requests in a row less than one
// meets such work. The worker keeps the rest only while others have requests.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_BASE_TIME_SHARE_H_
#define FARLOOK_SERVER_BASE_TIME_SHARE_H_

#include <algorithm>
#include <cstdint>

namespace farlook::server {

class TimeShare {
 public:
  // One part in kParts of the time is for this work.
  static constexpr int64_t kParts = 5;
  // Work that took longer includes time in which the process stood still; the excess is not charged.
  static constexpr int64_t kLongestNs = 2'000'000;
  static constexpr int64_t kShortestRestNs = 200'000;
  // The longest rest: limits the wait of the next client when many disconnect at once.
  static constexpr int64_t kLongestRestNs = 200'000'000;

  void Took(int64_t start_ns, int64_t end_ns) {
    const int64_t took_ns = std::min(end_ns - start_ns, kLongestNs);
    // Work done within the rest of earlier work extends that rest.
    if (took_ns <= 0) return;  // no work was done, or a test's clock stands still
    const int64_t rest_ns = std::max((kParts - 1) * took_ns, kShortestRestNs);
    due_ns_ = std::min(std::max(due_ns_ + took_ns, end_ns) + rest_ns, end_ns + kLongestRestNs);
  }
  int64_t due_ns() const { return due_ns_; }

 private:
  int64_t due_ns_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_TIME_SHARE_H_
