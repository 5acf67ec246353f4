// Durations of requests, from when a worker sees one to its answer. There is a histogram for each type (`handling_` in
// kStat), and a log line for each slow request (--slow_ms).
//
// A worker times one request in kSample: from the clock reading of its batch to one more reading. If slow requests are
// logged, it times all of them. A request that waits for its value, for room or for an earlier write is timed until its
// answer, too.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_EXECUTOR_REQUEST_TIMES_H_
#define FARLOOK_SERVER_EXECUTOR_REQUEST_TIMES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kv/wire/duration_buckets.h"
#include "kv/wire/message.h"
#include "server/base/worker_stats.h"

namespace farlook::server {

// Timed requests of one connection that have no answer yet.
class OpenRequests {
 public:
  static constexpr uint32_t kMost = 1024;  // limits a connection's memory to 24 KiB

  struct Request {
    uint64_t number = 0;  // 0: none
    int64_t since_ns = 0;
    kv::RequestType type = kv::RequestType::kPing;
  };

  // Returns the entry for this number. An entry there with another number was released or is no longer timed.
  Request& at(uint64_t number) { return ring_[number & mask_]; }
  bool one() const { return mask_ == 0; }
  // Makes an entry for each request of the window. If the window exceeds kMost, only the latest requests keep theirs.
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

  // `slow_ns`: duration from which a request is slow; 0: none is. The stats outlive this.
  RequestTimes(int64_t slow_ns, WorkerStats* stats)
      : slow_ns_(slow_ns), every_(slow_ns > 0 ? 1 : kSample), left_(every_), stats_(stats) {}

  // Makes room for the requests that a connection may have open at once.
  void Welcome(uint32_t window, OpenRequests* open) const {
    if (every_ == 1) open->HoldAll(window);
  }
  // Returns whether the request that is about to be executed is to be timed.
  bool Due() { return --left_ == 0; }
  // REQUIRES that Due() returned true.
  void Begin(uint64_t number, kv::RequestType type, int64_t now_ns, OpenRequests* open) {
    left_ = every_;
    OpenRequests::Request& place = open->at(number);
    if (place.number != 0 && open->one()) return;  // that one still waits
    place = {number, now_ns, type};
  }
  // Called when the request is answered. Returns whether it was slow.
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

#endif  // FARLOOK_SERVER_EXECUTOR_REQUEST_TIMES_H_
