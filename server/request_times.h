// How long requests take, from when a worker sees one to its answer: a histogram for each type (`handling_` in kStat),
// and a log line for each that is slow (--slow_ms).
//
// One request in kSample of a worker's is timed: it begins at the batch's reading of the clock and costs one more.
// Where slow ones are to be logged each is. One that waits, for its value, for room, or for an earlier write, is timed
// until its answer all the same.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_REQUEST_TIMES_H_
#define FARLOOK_SERVER_REQUEST_TIMES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/duration_buckets.h"
#include "kv/message.h"
#include "server/worker_stats.h"

namespace farlook::server {

// Of one connection: requests that are timed and have no answer yet.
class OpenRequests {
 public:
  static constexpr uint32_t kMost = 1024;  // which bounds what a connection makes the server hold: 24 KiB

  struct Request {
    uint64_t number = 0;  // 0: none
    int64_t since_ns = 0;
    kv::RequestType type = kv::RequestType::kPing;
  };

  // The place of this number. One that is there, of another number, has been released or is not to be timed any more.
  Request& at(uint64_t number) { return ring_[number & mask_]; }
  bool one() const { return mask_ == 0; }
  // Of a window that is longer than kMost, as many as those that came last.
  void HoldAll(uint32_t window) {
    ring_.assign(std::bit_ceil(std::min(window, kMost)), Request());
    mask_ = ring_.size() - 1;
  }

 private:
  std::vector<Request> ring_{1};
  uint64_t mask_ = 0;
};

class RequestTimes {
 public:
  static constexpr uint32_t kSample = 64;

  // `slow_ns`: from when on a request is slow; 0: none is. The stats outlive this.
  RequestTimes(int64_t slow_ns, WorkerStats* stats)
      : slow_ns_(slow_ns), every_(slow_ns > 0 ? 1 : kSample), left_(every_), stats_(stats) {}

  // Makes room for what a connection may have open at once.
  void Welcome(uint32_t window, OpenRequests* open) const {
    if (every_ == 1) open->HoldAll(window);
  }
  // Whether the request that is about to be executed is to be timed.
  bool Due() { return --left_ == 0; }
  // REQUIRES Due() said so.
  void Begin(uint64_t number, kv::RequestType type, int64_t now_ns, OpenRequests* open) {
    left_ = every_;
    OpenRequests::Request& place = open->at(number);
    if (place.number != 0 && open->one()) return;  // it waits still
    place = {number, now_ns, type};
  }
  // It has its answer. Returns whether it was slow.
  bool End(OpenRequests::Request* request, int64_t now_ns) {
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(0, now_ns - request->since_ns));
    request->number = 0;
    stats_->request_times[static_cast<size_t>(request->type)][kv::DurationBuckets::BucketOf(ns)].Add();
    if (slow_ns_ == 0 || ns < static_cast<uint64_t>(slow_ns_)) return false;
    stats_->slow_requests.Add();
    return true;
  }

 private:
  const int64_t slow_ns_;
  const uint32_t every_;
  uint32_t left_;
  WorkerStats* const stats_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_REQUEST_TIMES_H_
