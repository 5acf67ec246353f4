// What clients of a cache tell of their gets (kv/touched.h): a worker's share of it.
//
// Taking it in costs the worker at most a fiftieth of its time. How many of their hits clients tell is changed
// accordingly, by doubling or halving, once in a period; and what comes beyond twice that share in a period is not
// looked at. So whatever clients say, and however much, costs no more than receiving the messages.
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_TOUCHES_H_
#define FARLOOK_SERVER_TOUCHES_H_

#include <cstdint>

#include "kv/table.h"
#include "kv/touched.h"
#include "rdma/clock.h"
#include "server/worker_stats.h"

namespace farlook::server {

class Touches {
 public:
  static constexpr uint32_t kFirstSample = 4, kLastSample = 4096;
  static constexpr int64_t kShare = 50;
  static constexpr int64_t kPeriodNs = 250'000'000;

  // All outlive it.
  Touches(kv::Table* table, const rdma::Clock* clock, WorkerStats* stats)
      : table_(table), clock_(clock), stats_(stats) {
    if (wanted()) stats_->touch_sample.Set(sample_);
  }

  // Whether clients are to tell at all.
  bool wanted() const { return table_->evicts(); }

  // A client told this.
  void Take(const kv::TouchedLocations& touched);

  // One hit in so many is to be told.
  uint32_t sample() const { return sample_; }

 private:
  void EndPeriod(int64_t now_ns);

  kv::Table* const table_;
  const rdma::Clock* const clock_;
  WorkerStats* const stats_;
  uint32_t sample_ = kFirstSample;
  int64_t began_ns_ = 0;  // of the period
  int64_t spent_ns_ = 0;  // in it
  bool skipped_ = false;  // some were not looked at
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_TOUCHES_H_
